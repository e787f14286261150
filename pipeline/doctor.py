"""The doctor: what a store can do and whether it is safe, with the fix for what is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remit.pipeline.config import Config
from remit.pipeline.recall import Kit
from remit.pipeline.storage.store import Fault, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found: `facts` by name, and `faults` with their fixes; none means healthy."""

    facts: Mapping[str, str]
    faults: tuple[Fault, ...]

    @property
    def healthy(self) -> bool:
        return not self.faults


async def examined(store: Store, config: Config, kit: Kit, org: str) -> Examination:
    """Reads the store at hand, of what belongs to an org this one's; changes nothing. Raises `StorageUnavailable` when it cannot be asked."""
    capabilities = await store.capabilities()
    faults = list(await store.faults())
    if capabilities.vectors is not None and config.embedding.provider != "none":
        fix = "install the sqlite-vec package for this Python, or set embedding.provider to none"
        faults.append(Fault(code="no_vectors", detail=capabilities.vectors, fix=fix))
    facts = {
        **capabilities.facts,
        "vectors": capabilities.vectors or "searched",
        "words": kit.analyser.signature,
        "embedding": ", ".join(f"{lane} {space}" for lane, space in kit.streams.spaces().items()) or "off",
        "tokens": kit.counter.name,
        "roots": ", ".join([*config.freshness.roots, *await store.roots(org)]) or "none",
    }
    return Examination(facts=facts, faults=tuple(faults))
