"""Why: which stage lost one memory for one request, found by running the request again and looking where it went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from remit.pipeline.asking import Plan
from remit.pipeline.recall import Recalled
from remit.pipeline.storage.store import Store
from remit.stages.access import Access
from remit.stages.ceiling import Limit
from remit.stages.evidence import Lane, MemoryId, PassageId
from remit.stages.generate import Generated
from remit.stages.report import Reason, StageName
from remit.stages.verify import lapse_of

NOT_IN_SCOPE = "not_in_scope"
RETURNED = "returned"
NO_WORD = "no_common_word"
STOPPED = "stopped"
"""What `why` says beside the reasons of the stages."""

Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What became of a memory: `reason` is `returned`, `not_in_scope`, or why `stage` let it go, with the numbers that decided."""

    id: str
    stage: StageName | None
    reason: str
    numbers: Mapping[str, Number] = field(default_factory=dict)


async def explained(wanted: MemoryId, plan: Plan, access: Access | None, recalled: Recalled, store: Store) -> Explanation:
    """Follows a memory through what a recall came to."""
    passages = await store.passages_of(wanted, access) if access else ()
    if access is None or not passages:
        return Explanation(id=str(wanted), stage=None, reason=NOT_IN_SCOPE)
    return (
        _kept(wanted, recalled)
        or _lost_late(wanted, recalled)
        or await _lost_early(wanted, passages, plan, access, recalled, store)
        or Explanation(id=str(wanted), stage=_stopped_at(recalled), reason=_unseen(recalled))
    )


def _kept(wanted: MemoryId, recalled: Recalled) -> Explanation | None:
    """It is in the answer; perhaps not in the context."""
    if recalled.packed is None:
        return None
    for card in recalled.packed.cards:
        if card.memory.id == wanted:
            numbers: dict[str, Number] = {
                "rank": card.rank,
                "score": card.ranked.score,
                "tokens": card.tokens,
                **_places(card.ranked.ranks),
            }
            dropped = {each.id: each.reason for each in recalled.packed.context.dropped}
            if card.packed or wanted not in dropped:
                return Explanation(id=str(wanted), stage=None, reason=RETURNED, numbers=numbers)
            room = recalled.packed.context.budget - recalled.packed.context.tokens
            return Explanation(id=str(wanted), stage=StageName.PACK, reason=dropped[wanted].value, numbers={**numbers, "room": room})
    return None


def _lost_late(wanted: MemoryId, recalled: Recalled) -> Explanation | None:
    """Found, and lost in verify, rank or dedupe."""
    for verified in recalled.verified:
        for passage, reason in verified.lost:
            if passage.memory == wanted:
                numbers = _standing(wanted, recalled)
                return Explanation(id=str(wanted), stage=StageName.VERIFY, reason=reason.value, numbers=numbers)
    if any(each.outline.memory == wanted for each in recalled.candidates):
        return Explanation(id=str(wanted), stage=StageName.RANK, reason=Reason.OVER_CEILING.value)
    if any(hit.outline.memory == wanted for each in recalled.generated for hit in each.kept):
        return Explanation(id=str(wanted), stage=StageName.DEDUPE, reason=Reason.OVER_CEILING.value)
    return None


def _standing(wanted: MemoryId, recalled: Recalled) -> dict[str, Number]:
    """Its place in the ranked list and its score, beside the last score that was returned."""
    numbers: dict[str, Number] = {}
    for place, ranked in enumerate(recalled.ranked, start=1):
        if ranked.outline.memory == wanted:
            numbers |= {"rank": place, "score": ranked.score, **_places(ranked.ranks)}
    if recalled.fresh:
        numbers["lastReturned"] = recalled.fresh[-1].ranked.score
    return numbers


def _places(ranks: Mapping[Lane, int]) -> dict[str, Number]:
    return {f"place.{lane}": place for lane, place in ranks.items()}


async def _lost_early(
    wanted: MemoryId, passages: Sequence[PassageId], plan: Plan, access: Access, recalled: Recalled, store: Store
) -> Explanation | None:
    """Never proposed: it no longer stands, or the search saw too little in it, or a filter or ceiling left it out.

    What is not approved may not be read, and no stage counts it: it is as if it were not there.
    """
    for memory in (await store.read(passages, access)).values():
        lapse = lapse_of(memory.label, access)
        if lapse is Reason.WITHDRAWN:
            return Explanation(id=str(wanted), stage=None, reason=NOT_IN_SCOPE)
        if lapse is not None:
            return Explanation(id=str(wanted), stage=StageName.GENERATE, reason=lapse.value)
    if not recalled.generated:
        return None
    return await _measured(wanted, recalled.generated[0], plan, access, store)


async def _measured(wanted: MemoryId, generated: Generated, plan: Plan, access: Access, store: Store) -> Explanation | None:
    """What the lanes saw in its passages, beside what they had to see."""
    if generated.scores is None:
        return None
    seen = np.unique(np.concatenate([generated.scores.keys, *(each.keys for each in generated.proposals)]))
    outlines = await store.outlines(seen.tolist(), access)
    own = [key for key, outline in outlines.items() if outline.memory == wanted]
    if not own:
        return None
    numbers = _carried(own, generated, plan)
    if any(np.isin(each.keys, own).any() for each in generated.proposals):
        return Explanation(id=str(wanted), stage=StageName.GENERATE, reason=Reason.OVER_CEILING.value, numbers=numbers)
    filtered = generated.eligible is not None and not np.isin(own, generated.eligible).any()
    reason = Reason.FILTERED if filtered else Reason.WEAK
    return Explanation(id=str(wanted), stage=StageName.GENERATE, reason=reason.value, numbers=numbers)


def _carried(own: Sequence[int], generated: Generated, plan: Plan) -> dict[str, Number]:
    """What it carries of the question's information and words beside what was needed; nothing when no word stands in it."""
    scores = generated.scores
    if scores is None or not (mine := np.isin(scores.keys, own)).any():
        return {}
    everything = np.ones(scores.keys.size, dtype=np.bool_)
    eligible = everything if generated.eligible is None else np.isin(scores.keys, generated.eligible)
    bar = plan.selection.bar(scores, eligible)
    return {
        "share": float(scores.shares[mine].max()),
        "shareNeeded": bar.share,
        "covered": float(scores.covered[mine].max()),
        "coveredNeeded": bar.covered,
        "words": float(scores.words[mine].max()),
        "wordsNeeded": bar.words,
        "bm25": float(scores.scores[mine].max()),
    }


def _unseen(recalled: Recalled) -> str:
    """Why no lane saw it. Words that a ceiling left unsought may stand in it: that it has none of them is not for us to say then."""
    if recalled.faults:
        return STOPPED
    cut = any(each.scores is None or each.left_out or each.exhausted is Limit.SECONDS for each in recalled.generated)
    return Reason.OVER_CEILING.value if cut else NO_WORD


def _stopped_at(recalled: Recalled) -> StageName | None:
    return recalled.faults[0].stage if recalled.faults else StageName.GENERATE
