"""Embedding: what turns texts into vectors of a space."""
