"""Means: what the database at hand can do with vectors, as it was last seen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """A table of vectors: how long they are there, the number of their type, and whether its index can be used."""

    dimensions: int
    oid: int
    indexed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Version and schema of the extension, and the tables of vectors by their names."""

    version: str | None = None
    schema: str | None = None
    places: Mapping[str, Place] = field(default_factory=dict)

    @classmethod
    def told(cls, text: bytes | None) -> Means:
        version, schema, tables = json.loads(text or b"[null, null, null]")
        places = {name.removeprefix("vector_"): Place(length, oid, indexed) for name, (length, oid, indexed) in (tables or {}).items()}
        return cls(version=version, schema=schema, places=places if version else {})

    def table_for(self, dimensions: int) -> str | None:
        """The table for vectors of this length: the narrowest that has room."""
        fitting = sorted((place.dimensions, name) for name, place in self.places.items() if dimensions <= place.dimensions)
        return fitting[0][1] if fitting else None
