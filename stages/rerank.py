"""Rerank: the best of the ranked memories in the order that their text, read anew, answers the question in. It reports inside rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

import anyio

from remit.stages.access import Access
from remit.stages.ceiling import Ceiling
from remit.stages.evidence import Memory, PassageId, Ranked
from remit.stages.ports import Reader, Reranker
from remit.stages.rank import DECIMALS, order
from remit.stages.report import Degradation, Staged
from remit.stages.request import Source


async def rerank(
    ranked: Staged[Ranked],
    *,
    question: str,
    access: Access,
    reader: Reader,
    reranker: Reranker,
    tie_break_order: Sequence[Source],
    ceiling: Ceiling,
) -> Staged[Ranked]:
    """The same memories, the first `ceiling.items` of them by the reranker's scores and the others after them; nothing comes or goes.

    Only text that still stands in the store at the version ranked, and that the access admits, is shown to the reranker. Equal scores are
    ordered as if there were none. Late, failing or saying anything but one finite score a passage, it changes nothing, and
    `reranker_failed` is reported. Raises what `reader` raises.
    """
    few = ranked.kept[: ceiling.items]
    if not few:
        return ranked
    scores: Mapping[PassageId, float] | None = None
    if ceiling.seconds > 0:
        with anyio.move_on_after(ceiling.seconds):
            texts = _standing(few, await reader.read([each.outline.passage for each in few], access), access)
            scores = await _scores(question, texts, reranker) if texts else {}
    if scores is None:
        return replace(ranked, degraded=(*ranked.degraded, Degradation.RERANKER_FAILED))
    reordered = [each._replace(reranked=scores.get(each.outline.passage)) for each in few]
    return replace(ranked, kept=tuple(sorted((*reordered, *ranked.kept[len(few) :]), key=lambda each: order(each, tie_break_order))))


def _standing(few: Sequence[Ranked], found: Mapping[PassageId, Memory], access: Access) -> dict[PassageId, str]:
    """The texts that may be shown, title first, by passage."""
    texts = {}
    for each in few:
        memory = found.get(each.outline.passage)
        if memory is not None and memory.version == each.outline.version and access.admits(memory.label):
            texts[each.outline.passage] = f"{memory.title}\n{memory.text}".strip()
    return texts


async def _scores(question: str, texts: Mapping[PassageId, str], reranker: Reranker) -> dict[PassageId, float] | None:
    try:
        scores = [float(score) for score in await reranker.scores(question, list(texts.values()))]
    except Exception:  # noqa: BLE001 - any fault of a reranker, told as `reranker_failed`: the fused order must still stand
        return None
    if len(scores) != len(texts) or not all(map(isfinite, scores)):
        return None
    return {passage: round(score, DECIMALS) for passage, score in zip(texts, scores, strict=True)}
