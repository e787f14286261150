"""Stopping: how far a recall had come when a ceiling stopped it, for another that goes on from there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from remit.pipeline.continuing import Stopped
from remit.pipeline.outcome import Because
from remit.pipeline.recall import Recalled
from remit.pipeline.trail import StageReport
from remit.stages.ceiling import Limit
from remit.stages.evidence import MemoryId
from remit.stages.report import Reason, StageName

UNDECIDED = (Reason.SHARE, Reason.LIMIT, Reason.OVER_CEILING, Reason.UNFINISHED, Reason.REVISED)
"""Reasons of verify that leave open what a memory is worth: nobody looked at it, or it was just being rewritten."""

UNPACKED = (Reason.NO_ROOM, Reason.OVERSIZED, Reason.OVER_CEILING, Reason.UNFINISHED)
"""Reasons of pack that more room or more time would mend."""


def stopped_at(recalled: Recalled, reports: Mapping[StageName, StageReport], reasons: Sequence[Because]) -> Stopped:
    """Where a recall was stopped. What the context had no room for, when that is the reason, is not decided yet.

    The next search goes deeper only when all that this one brought up is decided; else it walks on down the same list.
    """
    unpacked = _unpacked(recalled) if any(each.stage is StageName.PACK for each in reasons) else frozenset()
    lost = {passage.memory for each in recalled.verified for passage, reason in each.lost if reason not in UNDECIDED}
    kept = {each.memory.id for each in recalled.fresh} - unpacked
    between = any(reports[stage].exhausted for stage in (StageName.DEDUPE, StageName.RANK))
    walked = bool(recalled.verified) and recalled.verified[-1].exhausted is None and not between and not unpacked
    given_back = Counter(memory.source for memory in unpacked)
    return Stopped(
        depth=recalled.depth,
        deeper=walked and bool(recalled.generated[-1].cut),
        postings=recalled.postings,
        more_postings=reports[StageName.GENERATE].exhausted is Limit.POSTINGS,
        taken={source: count - given_back[source] for source, count in recalled.page.taken.items()},
        decided=frozenset(lost | kept),
    )


def _unpacked(recalled: Recalled) -> frozenset[MemoryId]:
    dropped = recalled.packed.context.dropped if recalled.packed else ()
    return frozenset(each.id for each in dropped if each.reason in UNPACKED)
