"""Recall: five awaited steps, each inside its crew, its ceiling and its span. Read this first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import numpy as np

from remit.pipeline.analysis import Analyser
from remit.pipeline.asking import Plan
from remit.pipeline.config import Config, PerSource
from remit.pipeline.counting import Counts
from remit.pipeline.crews import Crews, Overloaded
from remit.pipeline.embedding.streams import Streams
from remit.pipeline.errors import CounterFailed, StorageUnavailable, UnsafeStorage
from remit.pipeline.outcome import Because, Code, fault
from remit.pipeline.reranking import Rerankers
from remit.pipeline.trail import Trail, log
from remit.stages.access import Access
from remit.stages.boosts import named_scopes
from remit.stages.ceiling import Ceiling, Limit
from remit.stages.dedupe import dedupe
from remit.stages.evidence import Candidate, Fresh, Lane, MemoryId, Ranked
from remit.stages.fusion import Compared, compared
from remit.stages.generate import Generated, Lookup, generate
from remit.stages.pack import Packed, pack
from remit.stages.ports import Checker, Finder, Reader, TokenCounter
from remit.stages.rank import RankRules, order, rank
from remit.stages.report import Reason, Staged, StageName, Unbalanced
from remit.stages.request import Source
from remit.stages.rerank import rerank
from remit.stages.shares import Page
from remit.stages.verify import Verified, verify

S = TypeVar("S", bound=Staged[Any])

MOMENT = 0.002
"""Seconds that others can wait for their turn; giving it takes 0.03 ms, which five stages of a small scope would pay each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """What an engine lends to each of its recalls. `clock` says when it is for the world, `time` for the event loop, in seconds."""

    config: Config
    finder: Finder
    reader: Reader
    checker: Checker
    streams: Streams
    rerankers: Rerankers
    counter: TokenCounter
    counts: Counts
    analyser: Analyser
    crews: Crews
    clock: Callable[[], datetime]
    time: Callable[[], float]


@dataclass(slots=True, kw_only=True)
class Recalled:
    """All that a recall came to, round by round and stage by stage, for its answer, its outcome and `why`.

    `depth` is how far down every lane of every source was searched, `postings` how many (word, passage) pairs could be read for it.
    """

    page: Page
    generated: list[Generated] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    ranked: list[Ranked] = field(default_factory=list)
    verified: list[Verified] = field(default_factory=list)
    fresh: list[Fresh] = field(default_factory=list)
    packed: Packed | None = None
    faults: list[Because] = field(default_factory=list)
    depth: int = 0
    postings: int = 0

    @property
    def left_behind(self) -> bool:
        """Whether the last search was cut at memories that could still have a place on the page."""
        return bool(self.generated) and any(self.page.closed_to(source) is None for source in self.generated[-1].cut)

    @classmethod
    def stopped(cls, why: Because) -> Recalled:
        """A recall that was stopped before anything was asked."""
        return cls(page=Page(limit=0, caps={}), faults=[why])


class Interrupted(Exception):
    """A stage could not be done; the recall's faults say why."""


async def recall(plan: Plan, access: Access, kit: Kit, trail: Trail, until: float) -> Recalled:
    """Answers a plan inside an access, until a moment of `kit.time`. Never raises for what is merely so: a fault is kept beside what was
    found before it."""
    await anyio.lowlevel.checkpoint_if_cancelled()
    steps = _Steps(plan, access, kit, trail, until)
    page = _page(plan.question.limit, plan.question.sources, kit.config.recall.lane_share)
    if plan.onward.taken:
        page = replace(page, taken=plan.onward.taken)
    recalled = Recalled(page=page, postings=plan.onward.postings_with(plan.postings))
    try:
        async with kit.crews.admitted(access.org, within=max(0.0, until - steps.turned)):
            question, settled = plan.question, plan.onward.settled_on(page)
            lookup = Lookup(text=question.query, terms=steps.terms, filters=question.filters, settled=settled)
            for _ in range(plan.ceilings[StageName.VERIFY].rounds):
                hits = await steps.generate(lookup, recalled)
                candidates = await steps.dedupe(hits, recalled)
                ranked = await steps.rank(candidates, recalled)
                verified = await steps.verify(ranked, recalled)
                if not (recalled.left_behind and _worth_another_round(hits, verified)):
                    break
                lookup = _beyond(lookup, hits)
            else:
                steps.out_of_rounds(recalled)
            await steps.pack(recalled)
            trail.balance()
    except Overloaded:
        recalled.faults.append(fault(None, Code.OVERLOADED))
    except Unbalanced as error:
        log.error("internal", **{"error.type": type(error).__name__})
        recalled.faults.append(fault(None, Code.INTERNAL))
    except Interrupted:
        recalled.packed = await steps.unpacked(recalled)
    return recalled


@lru_cache(maxsize=100)
def _page(limit: int, sources: tuple[Source, ...], shares: PerSource) -> Page:
    """An empty page: the same few are asked for again and again."""
    return Page.of(limit, sources, {source: shares.of(source) for source in Source})


class _Steps:
    """The five steps of one recall, with what each needs taken from the plan and the kit."""

    def __init__(self, plan: Plan, access: Access, kit: Kit, trail: Trail, until: float) -> None:
        self.plan, self.access, self.kit, self.trail = plan, access, kit, trail
        self.turned, self.until = kit.time(), until
        words = kit.config.recall.words
        self.terms = kit.analyser.asked(
            plan.question.query, alias_longest=words.alias_longest, most_words=words.most_words, part_weight=words.part_weight
        )

    async def generate(self, lookup: Lookup, recalled: Recalled) -> Generated:
        # What an earlier round cut off is looked for again now: only what this round cuts stays behind a ceiling.
        report, ceiling = self.trail.reports[StageName.GENERATE], self.plan.ceilings[StageName.GENERATE]
        report.exhausted = None
        items = ceiling.items if recalled.generated else self.plan.onward.depth_with(ceiling.items)
        recalled.depth += items
        report.ceiling = ceiling.having(items=items)
        generated = await self._at(
            StageName.GENERATE,
            recalled,
            items,
            lambda ceiling: generate(
                lookup,
                access=self.access,
                finder=self.kit.finder,
                embedders=self.kit.streams.questions(self.access.org),
                words=self.kit.config.recall.words,
                selection=self.plan.selection,
                turns=self.kit.config.recall.turns,
                postings=recalled.postings,
                ceiling=ceiling,
            ),
        )
        report.ceiling = ceiling.having(items=recalled.depth)  # what is told of all rounds stands beside what all of them might do
        recalled.generated.append(generated)
        return generated

    async def dedupe(self, hits: Generated, recalled: Recalled) -> Staged[Candidate]:
        # Less those of earlier rounds, as in rank and verify: their ceilings hold over all rounds together.
        left = self.plan.ceilings[StageName.DEDUPE].items - len(recalled.candidates)
        candidates = await self._at(StageName.DEDUPE, recalled, left, lambda ceiling: dedupe(hits.kept, ceiling=ceiling))
        recalled.candidates += candidates.kept
        return candidates

    async def rank(self, candidates: Staged[Candidate], recalled: Recalled) -> Staged[Ranked]:
        report = self.trail.reports[StageName.RANK]
        left = report.ceiling.items - (report.received - report.rejected[Reason.OVER_CEILING])
        ranked = await self._at(StageName.RANK, recalled, left, lambda ceiling: self._rank(candidates.kept, recalled, ceiling))
        recalled.ranked += ranked.kept
        return ranked

    async def verify(self, ranked: Staged[Ranked], recalled: Recalled) -> Verified:
        verified = await self._at(
            StageName.VERIFY,
            recalled,
            self.plan.ceilings[StageName.VERIFY].items - sum(each.looked_at for each in recalled.verified),
            lambda ceiling: verify(
                ranked.kept,
                access=self.access,
                reader=self.kit.reader,
                checker=self.kit.checker,
                page=recalled.page,
                batch=self.kit.config.freshness.batch,
                clock=self.kit.clock,
                keep_unverified=self.kit.config.freshness.keeps_unverified(self.access.org),
                ceiling=ceiling,
            ),
        )
        recalled.verified.append(verified)
        recalled.fresh = self._in_order([*recalled.fresh, *verified.kept]) if recalled.fresh else list(verified.kept)
        recalled.page = verified.page
        return verified

    async def pack(self, recalled: Recalled) -> None:
        items = self.plan.ceilings[StageName.PACK].items
        recalled.packed = await self._at(StageName.PACK, recalled, items, lambda ceiling: self._pack(recalled, ceiling))

    async def _pack(self, recalled: Recalled, ceiling: Ceiling) -> Packed:
        return await pack(
            recalled.fresh,
            questions=self.plan.question.questions,
            words_of=self.kit.analyser.content,
            counter=self.kit.counts.of(self.access.org),
            room=self.plan.room,
            repeats=self.kit.config.context.repeats,
            excerpts=self.kit.config.context.excerpts,
            ceiling=ceiling,
        )

    async def unpacked(self, recalled: Recalled) -> Packed:
        """What was found before a fault, as cards outside any context."""
        return await self._pack(recalled, Ceiling(items=0, seconds=0))

    def out_of_rounds(self, recalled: Recalled) -> None:
        """The last permitted round left places open although more could have been found: that is what cut verify short."""
        report = self.trail.reports[StageName.VERIFY]
        if not recalled.page.full and report.exhausted is None and report.rejected.total():
            report.exhausted, report.outcome = Limit.ROUNDS, "exhausted"

    def _in_order(self, fresh: Sequence[Fresh]) -> list[Fresh]:
        """Best first over all rounds: a later one may find what its boosts lift above what an earlier one kept."""
        ties = self.kit.config.recall.tie_break_order
        return sorted(fresh, key=lambda each: order(each.ranked, ties))

    async def _rank(self, candidates: Sequence[Candidate], recalled: Recalled, ceiling: Ceiling) -> Staged[Ranked]:
        """The fused order; in the first round its best are ordered anew by a reranker, for scores of two lists cannot be compared."""
        reranker = None if recalled.ranked else self.kit.rerankers.of(self.access.org)
        if reranker is None:
            return await rank(candidates, rules=self._rules(candidates, recalled), ceiling=ceiling)
        until = self.kit.time() + ceiling.seconds
        ranked = await rank(candidates, rules=self._rules(candidates, recalled), ceiling=ceiling)
        seconds = min(self.kit.config.reranking.seconds, until - self.kit.time())
        return await rerank(
            ranked,
            question=self.plan.question.query,
            access=self.access,
            reader=self.kit.reader,
            reranker=reranker,
            tie_break_order=self.kit.config.recall.tie_break_order,
            ceiling=Ceiling(items=self.plan.rerank, seconds=max(0.0, seconds)),
        )

    def _rules(self, candidates: Sequence[Candidate], recalled: Recalled) -> RankRules:
        settings, question = self.kit.config.recall, self.plan.question
        scopes = {candidate.outline.scope for candidate in candidates} | (self.access.granted or frozenset())
        return RankRules(
            fusion=settings.fusion,
            boosts=settings.boosts,
            named=named_scopes(question.query, scopes, question.project),
            now=question.as_of,
            tie_break_order=tuple(settings.tie_break_order),
            compared=self._compared(recalled),
        )

    def _compared(self, recalled: Recalled) -> Compared | None:
        """What votes are measured by, over all rounds; nothing where they count by their places alone."""
        space = self.kit.streams.spaces().get(Lane.SEMANTIC)
        if space is None:
            return None
        words = sum(term.weight == 1 and not term.stop for term in self.terms.words)
        together, first, found = self.kit.config.recall.fusion.together, recalled.generated[0], Counter[Lane]()
        for proposal in first.proposals:
            found[proposal.lane] += proposal.keys.size
        if not together.goes_for(space, words, found):
            return None
        covered: dict[int, float] = {}
        for each in recalled.generated:
            covered |= _covered(each)
        hits = [hit for each in recalled.generated for hit in (*each.kept, *each.settled)]
        return compared(hits, (*first.kept, *first.settled), covered, together)

    async def _at(self, stage: StageName, recalled: Recalled, items: int, work: Callable[[Ceiling], Awaitable[S]]) -> S:
        """One stage, for so many items, in its crew, its span and what is left of the request's time.

        Others have their turn before it, however many candidates go from one stage to the next, but not after a moment's work.
        """
        now = self.kit.time()
        try:
            async with self.kit.crews.at(stage, within=max(0.0, self.until - now)) as waited:
                if waited or now - self.turned >= MOMENT:
                    await anyio.lowlevel.checkpoint()
                    self.turned = now = self.kit.time()
                ceiling = self.plan.ceilings[stage]
                of_stage = ceiling.seconds - self.trail.reports[stage].seconds  # earlier rounds have spent the rest
                ceiling = ceiling.having(items=items, seconds=max(0.0, min(of_stage, self.until - now)))
                return await self.trail.follow(stage, lambda: work(ceiling))
        except Overloaded:
            recalled.faults.append(fault(stage, Code.OVERLOADED))
        except UnsafeStorage as error:
            recalled.faults.append(fault(stage, Code.UNSAFE_STORAGE, error.fact))
        except CounterFailed as error:
            recalled.faults.append(fault(stage, Code.COUNTER, error.fact))
        except StorageUnavailable as error:
            recalled.faults.append(fault(stage, Code.STORE_UNAVAILABLE, error.fact))
        except Exception as error:  # noqa: BLE001 - whatever else is wrong must reach the caller as an outcome, and the log by its kind
            log.error("internal", **{"remit.stage": stage.value, "error.type": type(error).__name__})
            recalled.faults.append(fault(stage, Code.INTERNAL))
        raise Interrupted


def _covered(generated: Generated) -> dict[int, float]:
    """The part of the question's words that each passage holds which words proposed, by the passage's key."""
    keys = [hit.outline.key for hit in (*generated.kept, *generated.settled) if hit.lane is Lane.LEXICAL]
    if generated.scores is None or not keys:
        return {}
    return dict(zip(keys, generated.scores.covered[np.searchsorted(generated.scores.keys, keys)].tolist(), strict=True))


def _worth_another_round(generated: Generated, verified: Verified) -> bool:
    """Evidence was stale, or all of it decided by the answer that this recall goes on from, and work is left."""
    stale = any(reason not in (Reason.SHARE, Reason.LIMIT) for _, reason in verified.lost)
    return (stale or bool(generated.settled and not generated.kept)) and verified.exhausted is None


def _beyond(lookup: Lookup, generated: Generated) -> Lookup:
    """The same search, without what was seen, its places going on after those given away."""
    taken: Counter[tuple[Lane, Source]] = Counter(lookup.taken)
    seen: set[MemoryId] = set(lookup.seen)
    for hit in (*generated.kept, *generated.settled):
        taken[hit.lane, hit.outline.memory.source] += 1
        seen.add(hit.outline.memory)
    return replace(lookup, seen=frozenset(seen), taken=taken, bar=generated.bar, gains=generated.gains)
