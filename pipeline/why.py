"""Why: which stage lost one memory for one request, found by running the request again and looking where it went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from remit.pipeline.asking import Plan
from remit.pipeline.recall import Recalled
from remit.pipeline.storage.store import Store
from remit.stages.access import Access
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.dedupe import dedupe
from remit.stages.evidence import Lane, Memory, MemoryId, Outline, PassageId, Verdict
from remit.stages.generate import Generated
from remit.stages.lanes import Proposed, hits_of
from remit.stages.report import Reason, StageName
from remit.stages.request import Filters
from remit.stages.verify import lapse_of

NOT_IN_SCOPE = "not_in_scope"
RETURNED = "returned"
NO_WORD = "no_common_word"
STOPPED = "stopped"
"""What `why` says beside the reasons of the stages."""

Number = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What became of a memory: `reason` is `returned`, `not_in_scope`, or why `stage` let it go.

    `numbers` are what decided, beside what was needed where there is such a thing (`rank` and `rankNeeded`; ranks begin with 1, the
    `place` in a lane with 0); `details` what is said in words: the verdict on its source, how it was found, what it repeats.
    """

    id: str
    stage: StageName | None
    reason: str
    numbers: Mapping[str, Number] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)


async def explained(wanted: MemoryId, plan: Plan, access: Access | None, recalled: Recalled, store: Store) -> Explanation:
    """Follows a memory through what a recall came to."""
    passages = await store.passages_of(wanted, access) if access else ()
    if access is None or not passages:
        return Explanation(id=str(wanted), stage=None, reason=NOT_IN_SCOPE)
    return (
        _kept(wanted, plan, recalled)
        or await _lost_late(wanted, plan, recalled)
        or await _lost_early(wanted, passages, plan, access, recalled, store)
        or Explanation(id=str(wanted), stage=_stopped_at(recalled), reason=_unseen(recalled))
    )


def _kept(wanted: MemoryId, plan: Plan, recalled: Recalled) -> Explanation | None:
    """It is in the answer; perhaps not in the context."""
    packed = recalled.packed
    card = next((each for each in packed.cards if each.memory.id == wanted), None) if packed else None
    if packed is None or card is None:
        return None
    context = packed.context
    numbers: dict[str, Number] = {"rank": card.rank, "score": card.ranked.score, **_places(card.ranked.ranks)}
    numbers |= {"tokens": card.tokens, "room": context.room - context.tokens}
    details = {"verdict": card.fresh.verdict.value, "routes": ",".join(card.ranked.candidate.routes)}
    dropped = next((each for each in context.dropped if each.id == wanted), None)
    if card.packed or dropped is None:
        return Explanation(id=str(wanted), stage=None, reason=RETURNED, numbers=numbers, details=details)
    if dropped.reason is Reason.PASSAGES:
        numbers |= {"passages": context.passages, "passagesMost": plan.room.passages}
    elif dropped.reason is Reason.OVERSIZED:
        numbers |= {"roomWhole": context.room}
    details |= {"repeats": str(dropped.repeats)} if dropped.repeats else {}
    return Explanation(id=str(wanted), stage=StageName.PACK, reason=dropped.reason.value, numbers=numbers, details=details)


async def _lost_late(wanted: MemoryId, plan: Plan, recalled: Recalled) -> Explanation | None:
    """Found, and lost in verify, rank or dedupe."""
    for verified in recalled.verified:
        for passage, reason in verified.lost:
            if passage.memory == wanted:
                return _lost_in_verify(wanted, reason, plan, recalled)
    most = plan.ceilings[StageName.RANK].items
    for place, each in enumerate(recalled.candidates, start=1):
        if each.outline.memory == wanted:
            numbers = {"candidate": place, "candidateNeeded": most, **_places(each.ranks)}
            return Explanation(id=str(wanted), stage=StageName.RANK, reason=Reason.OVER_CEILING.value, numbers=numbers)
    for generated in recalled.generated:
        if any(hit.outline.memory == wanted for hit in generated.kept):
            return await _lost_in_dedupe(wanted, generated, plan)
    return None


def _lost_in_verify(wanted: MemoryId, reason: Reason, plan: Plan, recalled: Recalled) -> Explanation:
    """Its place and score beside the last that were returned, the looks that were spent, or what was seen at its source."""
    numbers: dict[str, Number] = {}
    details: dict[str, str] = {}
    for place, ranked in enumerate(recalled.ranked, start=1):
        if ranked.outline.memory == wanted:
            numbers |= {"rank": place, "score": ranked.score, **_places(ranked.ranks)}
            details |= {"routes": ",".join(ranked.candidate.routes)}
    rivals = [each for each in recalled.fresh if reason is not Reason.SHARE or each.memory.id.source is wanted.source]
    if reason in (Reason.SHARE, Reason.LIMIT) and rivals:
        ranks = {each.outline.memory: place for place, each in enumerate(recalled.ranked, start=1)}
        numbers |= {"rankNeeded": max(ranks[each.memory.id] for each in rivals), "scoreNeeded": min(each.ranked.score for each in rivals)}
    elif reason in (Reason.OVER_CEILING, Reason.UNFINISHED):
        looks = sum(each.looked_at for each in recalled.verified)
        numbers |= {"looks": looks, "looksMost": plan.ceilings[StageName.VERIFY].items}
    elif reason.value in list(Verdict):
        details |= {"verdict": reason.value}
    return Explanation(id=str(wanted), stage=StageName.VERIFY, reason=reason.value, numbers=numbers, details=details)


async def _lost_in_dedupe(wanted: MemoryId, generated: Generated, plan: Plan) -> Explanation:
    """The order in which dedupe saw its candidates, once more without a ceiling."""
    everything = await dedupe(generated.kept, ceiling=Ceiling(items=len(generated.kept)))
    place, found = next((place, each) for place, each in enumerate(everything.kept, start=1) if each.outline.memory == wanted)
    numbers = {"candidate": place, "candidateNeeded": plan.ceilings[StageName.DEDUPE].items, **_places(found.ranks)}
    return Explanation(id=str(wanted), stage=StageName.DEDUPE, reason=Reason.OVER_CEILING.value, numbers=numbers)


def _places(ranks: Mapping[Lane, int]) -> dict[str, Number]:
    return {f"place.{lane}": place for lane, place in ranks.items()}


async def _lost_early(
    wanted: MemoryId, passages: Sequence[PassageId], plan: Plan, access: Access, recalled: Recalled, store: Store
) -> Explanation | None:
    """Never proposed: it no longer stands, or the search saw too little in it, or a filter or ceiling left it out."""
    for memory in (await store.read(passages, access)).values():
        lapse = lapse_of(memory.label, access)
        if lapse is not None:
            return Explanation(id=str(wanted), stage=StageName.GENERATE, reason=lapse.value)
    if not recalled.generated:
        return None
    return await _measured(wanted, recalled, plan, access, store)


async def _measured(wanted: MemoryId, recalled: Recalled, plan: Plan, access: Access, store: Store) -> Explanation | None:
    """What the lanes saw in its passages, beside what they had to see."""
    generated = recalled.generated[0]
    if generated.scores is None:
        return None
    seen = np.unique(np.concatenate([generated.scores.keys, *(each.keys for each in generated.proposals)]))
    outlines = await store.outlines(seen.tolist(), access)
    own = [key for key, outline in outlines.items() if outline.memory == wanted]
    if not own:
        return None
    numbers = _carried(own, generated, plan)
    if places := _beyond(wanted, generated.proposals, outlines, recalled.depth):
        numbers |= places
        return Explanation(id=str(wanted), stage=StageName.GENERATE, reason=Reason.OVER_CEILING.value, numbers=numbers)
    if generated.eligible is not None and not np.isin(own, generated.eligible).any():
        passages = await store.read([outlines[key].passage for key in own], access)
        details = {"filter": _failed(next(iter(passages.values())), plan.question.filters)} if passages else {}
        return Explanation(id=str(wanted), stage=StageName.GENERATE, reason=Reason.FILTERED.value, numbers=numbers, details=details)
    needed = {f"similarityNeeded.{lane}": threshold for lane, threshold in generated.thresholds.items()}
    return Explanation(id=str(wanted), stage=StageName.GENERATE, reason=Reason.WEAK.value, numbers=numbers | needed)


def _beyond(wanted: MemoryId, proposals: Sequence[Proposed], outlines: Mapping[int, Outline], most: int) -> dict[str, Number]:
    """In each lane that proposed it, its best place and the last one that was within the ceiling, all rounds together."""
    numbers: dict[str, Number] = {}
    for proposal in proposals:
        for hit in hits_of(proposal, outlines, proposal.keys.size, 0):
            if hit.outline.memory == wanted:
                numbers |= {f"place.{proposal.lane}": hit.place, f"placeNeeded.{proposal.lane}": most - 1}
                break
    return numbers


def _failed(memory: Memory, filters: Filters) -> str:
    """The first filter that a memory does not pass; a phrase, when it passes all others."""
    if not filters.tags.passes(frozenset(memory.tags)):
        return "tags"
    since, until = filters.created_from, filters.created_until
    early, late = since is not None and memory.created_at < since, until is not None and memory.created_at >= until
    return "created" if early or late else "phrases"


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
