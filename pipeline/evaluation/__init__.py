"""Evaluation: what a memory finds of what it should, where it loses the rest, and whether anything leaks meanwhile."""
