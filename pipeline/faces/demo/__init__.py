"""The demo: a small memory of two ferry lines, and a tour through what becomes of three questions to it."""
