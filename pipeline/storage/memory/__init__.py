"""The store in memory: the promise in its plainest form, for tests and demos, and the oracle of the other stores."""

from remit.pipeline.storage.memory.store import MemoryStore, open_memory

__all__ = ["MemoryStore", "open_memory"]
