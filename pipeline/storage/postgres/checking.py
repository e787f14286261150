"""Checking: what is wrong with a Postgres store as it stands, and what it can do."""

from __future__ import annotations

from remit.pipeline.storage.postgres.desk import Desk
from remit.pipeline.storage.store import Capabilities, Fault


async def capabilities(desk: Desk) -> Capabilities:
    return Capabilities()


async def faults(desk: Desk, signature: str) -> list[Fault]:
    return []
