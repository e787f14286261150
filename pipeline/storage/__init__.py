"""Stores: what is written (`entry`), what every store can do (`store`), and one folder a backend."""
