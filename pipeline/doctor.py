"""The doctor: what a store can do and whether it is safe, with the fix for what is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from remit.pipeline.config import Config
from remit.pipeline.recall import Kit
from remit.pipeline.storage.store import Capabilities, Fault, Store
from remit.stages.access import Access
from remit.stages.evidence import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was found: `facts` by name, and `faults` with their fixes; none means healthy."""

    facts: Mapping[str, str]
    faults: tuple[Fault, ...]

    @property
    def healthy(self) -> bool:
        return not self.faults


def of_unsafe(fact: str) -> Examination:
    """Of a store that refused to be opened, because something would let rows past their policies."""
    fix = "take back what is named; what `remit init` makes is put right by running it with an owner's DSN"
    return Examination(facts={}, faults=(Fault(code="unsafe_storage", detail=fact, fix=fix),))


async def examined(store: Store, config: Config, kit: Kit, access: Access) -> Examination:
    """Reads the store at hand, of what belongs to an org what this access reaches; changes nothing.

    Raises `StorageUnavailable` when it cannot be asked; one that must not be asked has that one fault, and no facts.
    """
    faults = list(await store.faults())
    if any(fault.code == "unsafe_storage" for fault in faults):
        return Examination(facts={}, faults=tuple(faults))
    capabilities = await store.capabilities()
    coverage = {lane: await store.coverage(space, access) for lane, space in kit.streams.spaces().items()}
    faults += [*_vectors(capabilities, config, kit), *_uncovered(coverage)]
    facts = {
        **capabilities.facts,
        **{f"{lane} coverage": f"{having} of {passages} passages in reach" for lane, (having, passages) in coverage.items()},
        **{f"{lane} stream": state.value for lane, state in kit.streams.states(access.org, coverage).items()},
        "vectors": capabilities.vectors or "searched",
        "words": kit.analyser.signature,
        "embedding": ", ".join(f"{lane} {space}" for lane, space in kit.streams.spaces().items()) or "off",
        "tokens": kit.counter.name,
        "grants": "what the host states" if config.authority.grants == "host" else "the store's table",
        "roots": ", ".join([*config.freshness.roots, *await store.roots(access.org)]) or "none",
    }
    return Examination(facts=facts, faults=tuple(faults))


def _vectors(capabilities: Capabilities, config: Config, kit: Kit) -> Iterator[Fault]:
    if capabilities.vectors is not None:
        if config.embedding.provider != "none":
            yield Fault(code="no_vectors", detail=capabilities.vectors, fix=capabilities.fix)
        return
    longest = capabilities.dimensions
    for stream in kit.streams.all:
        if longest is not None and stream.questions.dimensions > longest:
            detail = f"{stream.lane} vectors of {stream.questions.dimensions} dimensions, where the store has a place for {longest}"
            fix = "set embedding.semanticDimensions to theirs and run `remit init` on a store without such vectors, or use a shorter model"
            yield Fault(code="too_many_dimensions", detail=detail, fix=fix)


def _uncovered(coverage: Mapping[Lane, tuple[int, int]]) -> Iterator[Fault]:
    """The local hash is made with the words, and a passage without words has none; a model's vectors may be made later."""
    having, passages = coverage.get(Lane.SEMANTIC, (0, 0))
    if having < passages:
        detail = f"{passages - having} of {passages} passages in reach have no semantic vector"
        yield Fault(code="uncovered", detail=detail, fix="run `remit embed`")
