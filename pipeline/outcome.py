"""The outcome of a recall: one of four words, and why, by rules that leave no case open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from remit.pipeline.trail import StageReport
from remit.stages.ceiling import Limit
from remit.stages.report import Degradation, Reason, StageName


class Outcome(StrEnum):
    ENOUGH = "enough"
    EXHAUSTED = "exhausted"
    UNAVAILABLE = "unavailable"
    NOTHING_FOUND = "nothing_found"


class Owner(StrEnum):
    """Whose job it is."""

    CALLER = "caller"
    OPERATOR = "operator"
    PROVIDER = "provider"
    SOURCE_OWNER = "source_owner"
    AUTHORITY = "authority"


class Code(StrEnum):
    """Why an outcome is what it is. The list is closed; `ops/runbook.md` explains each."""

    STORE_UNAVAILABLE = "store_unavailable"
    UNSAFE_STORAGE = "unsafe_storage"
    OVERLOADED = "overloaded"
    INTERNAL = "internal"
    UNAUTHORISED = "unauthorised"
    AUTHORITY = "authority"
    FRESHNESS = "freshness"
    COUNTER = "counter"
    CEILING_ITEMS = "ceiling_items"
    CEILING_SECONDS = "ceiling_seconds"
    CEILING_TOKENS = "ceiling_tokens"
    CEILING_POSTINGS = "ceiling_postings"
    CEILING_ROUNDS = "ceiling_rounds"
    CEILING_CONTINUATIONS = "ceiling_continuations"
    STALE_SOURCES = "stale_sources"
    TOO_FEW = "too_few"
    TOO_WEAK = "too_weak"
    NO_MATCH = "no_match"
    EMBEDDING_FAILED = "embedding_failed"
    EMBEDDING_INCOMPATIBLE = "embedding_incompatible"
    EMBEDDING_PENDING = "embedding_pending"
    EMBEDDING_DISABLED = "embedding_disabled"
    NO_VECTORS = "no_vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Because:
    """One reason of an outcome: where, what, whose job it is, whether asking again can help, and what to do next."""

    stage: StageName | None
    code: Code
    detail: str
    owner: Owner
    retryable: bool
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a recall came to: fresh memories found, whether that is a full page, how many are in the context and how many had to be.

    `context_asked` is False when the caller left no room on purpose, by asking for no passages: then the memories themselves are what
    there has to be so many of. `behind` is False when whatever generate cut off is of sources that have no place left.
    """

    fresh: int
    full: bool
    packed: int
    minimum: int
    context_asked: bool
    behind: bool = True

    @property
    def held(self) -> int:
        """How much of what was asked for there is."""
        return self.packed if self.context_asked else self.fresh


STALE = (Reason.CHANGED, Reason.MISSING, Reason.INACCESSIBLE)

_CEILINGS = {
    Limit.ITEMS: Code.CEILING_ITEMS,
    Limit.SECONDS: Code.CEILING_SECONDS,
    Limit.TOKENS: Code.CEILING_TOKENS,
    Limit.POSTINGS: Code.CEILING_POSTINGS,
    Limit.ROUNDS: Code.CEILING_ROUNDS,
}

_FAULTS: Mapping[Code, tuple[Owner, bool, str]] = {
    Code.STORE_UNAVAILABLE: (Owner.OPERATOR, True, "see `remit doctor`, restore the store, and ask again"),
    Code.UNSAFE_STORAGE: (Owner.OPERATOR, False, "see `remit doctor` and give the engine a restricted role"),
    Code.OVERLOADED: (Owner.OPERATOR, True, "ask again a little later, or give the engine more places"),
    Code.INTERNAL: (Owner.OPERATOR, False, "report the trace id to the people who run this service"),
    Code.UNAUTHORISED: (Owner.AUTHORITY, False, "ask for a scope that is granted, or for the grant"),
    Code.AUTHORITY: (Owner.OPERATOR, True, "restore what says who is granted what, and ask again"),
    Code.COUNTER: (Owner.OPERATOR, False, "mend the token counter that the host gave the engine"),
    Code.FRESHNESS: (Owner.OPERATOR, True, "restore what looks at the sources, and ask again"),
    Code.EMBEDDING_FAILED: (Owner.PROVIDER, True, "restore the embedding provider, and ask again"),
    Code.EMBEDDING_INCOMPATIBLE: (Owner.OPERATOR, False, "name the model that the provider serves, then run `remit embed`"),
    Code.EMBEDDING_PENDING: (Owner.OPERATOR, True, "run `remit embed`, and ask again"),
    Code.EMBEDDING_DISABLED: (Owner.OPERATOR, False, "name the org in outbound.embeddingOrgs, if it agrees"),
    Code.NO_VECTORS: (Owner.OPERATOR, False, "see `remit doctor`"),
}

_UNASKED = "words alone were searched"

_INCOMPLETE = {
    Degradation.EMBEDDING_PENDING: (Code.EMBEDDING_PENDING, "not all passages in reach have a vector"),
    Degradation.EMBEDDING_DISABLED: (Code.EMBEDDING_DISABLED, _UNASKED),
    Degradation.NO_VECTORS: (Code.NO_VECTORS, _UNASKED),
}
"""Ways of finding that are not to be had here: no fault of this search, but told when it found nothing."""


def fault(stage: StageName | None, code: Code, detail: str = "") -> Because:
    """Why something could not be done at all."""
    owner, retryable, following = _FAULTS[code]
    return Because(stage=stage, code=code, detail=detail, owner=owner, retryable=retryable, next=following)


def decided(
    reports: Mapping[StageName, StageReport], evidence: Evidence, faults: Sequence[Because], degraded: Collection[Degradation] = ()
) -> tuple[Outcome, tuple[Because, ...]]:
    """The outcome and its reasons; `degraded` is what the stages did not tell themselves. The first rule that holds decides:

    1. a fault: `unavailable`, and what was found is kept;
    2. nothing fresh, for nobody could look at any source: `unavailable`, whatever else there was to look at;
    3. a ceiling cut the search while the page was not full, or left too little room to pack: `exhausted`;
    4. as much as there has to be: `enough`;
    5. less, and a source nobody could look at, or an embedder that failed: `unavailable`, for it may have been there;
    6. nothing fresh: `nothing_found`;
    7. else the search came to its end with something, and less than there has to be: `exhausted`.
    """
    if faults:
        return Outcome.UNAVAILABLE, tuple(faults)
    verify, missing = reports[StageName.VERIFY], {*degraded, *(each for report in reports.values() for each in report.degraded)}
    blind = [_blind(verify)] if verify.rejected[Reason.UNVERIFIED] else []
    if blind and not evidence.fresh and not _stale(verify):
        return Outcome.UNAVAILABLE, tuple(blind)
    cuts = tuple(_cuts(reports, evidence))
    if cuts:
        return Outcome.EXHAUSTED, cuts
    if evidence.fresh and evidence.held >= evidence.minimum:
        return Outcome.ENOUGH, ()
    short = [_too_few(evidence)] if evidence.fresh else [*_nothing(reports)]
    unasked = [*blind, *_unasked(missing)]
    if unasked:
        return Outcome.UNAVAILABLE, (*unasked, *short)
    incomplete = (fault(StageName.GENERATE, *said) for degradation, said in _INCOMPLETE.items() if degradation in missing)
    return (Outcome.EXHAUSTED if evidence.fresh else Outcome.NOTHING_FOUND), (*short, *incomplete)


def _blind(verify: StageReport) -> Because:
    return fault(StageName.VERIFY, Code.FRESHNESS, f"{verify.rejected[Reason.UNVERIFIED]} sources could not be looked at")


def _stale(verify: StageReport) -> int:
    return sum(verify.rejected[reason] for reason in STALE)


def _unasked(missing: Collection[Degradation]) -> Iterable[Because]:
    """The part of the search that was to be done and could not be."""
    if Degradation.EMBEDDING_FAILED in missing:
        other = Degradation.EMBEDDING_INCOMPATIBLE in missing
        yield fault(StageName.GENERATE, Code.EMBEDDING_INCOMPATIBLE if other else Code.EMBEDDING_FAILED, _UNASKED)


def _cuts(reports: Mapping[StageName, StageReport], evidence: Evidence) -> Iterable[Because]:
    if not evidence.full:
        for stage in (StageName.GENERATE, StageName.DEDUPE, StageName.RANK, StageName.VERIFY):
            limit = reports[stage].exhausted
            if limit is not None and not _harmless(stage, limit, evidence):
                yield _cut(reports[stage], limit)
    limit = reports[StageName.PACK].exhausted
    if limit is not None and evidence.context_asked and evidence.packed < evidence.minimum:
        yield _cut(reports[StageName.PACK], limit)


def _harmless(stage: StageName, limit: Limit, evidence: Evidence) -> bool:
    """Whether what a limit cut off would have changed nothing: no place for it, or only words too common to tell."""
    if stage is StageName.GENERATE and limit is Limit.ITEMS:
        return not evidence.behind
    return limit is Limit.POSTINGS and evidence.fresh > 0


def _cut(report: StageReport, limit: Limit) -> Because:
    lost = ", ".join(f"{count} {reason}" for reason, count in sorted(report.rejected.items()))
    return Because(
        stage=report.stage,
        code=_CEILINGS[limit],
        detail=f"received {report.received}, returned {report.returned}" + (f"; {lost}" if lost else ""),
        owner=Owner.CALLER,
        retryable=limit is Limit.SECONDS,
        next=f"allow {report.stage} more {limit}, or ask more narrowly",
    )


def _nothing(reports: Mapping[StageName, StageReport]) -> Iterable[Because]:
    """What became of all that was looked at, in one word."""
    generate, stale = reports[StageName.GENERATE], _stale(reports[StageName.VERIFY])
    if stale:
        yield Because(
            stage=StageName.VERIFY,
            code=Code.STALE_SOURCES,
            detail=f"{stale} memories no longer match their source",
            owner=Owner.SOURCE_OWNER,
            retryable=False,
            next="take the changed sources in again",
        )
    elif generate.rejected[Reason.WEAK]:
        yield _unmatched(Code.TOO_WEAK, f"{generate.rejected[Reason.WEAK]} memories share too little with the question")
    else:
        yield _unmatched(Code.NO_MATCH, "no memory in the declared scope matches")


def _too_few(evidence: Evidence) -> Because:
    """Nothing was cut, and what there is does not come to what there has to be; of what repeats another, only the other counts."""
    repeated = evidence.held < evidence.fresh
    return Because(
        stage=StageName.PACK if repeated else StageName.GENERATE,
        code=Code.TOO_FEW,
        detail=f"{evidence.held} of the {evidence.minimum} asked for" + ("; the others say the same" if repeated else ""),
        owner=Owner.CALLER,
        retryable=False,
        next="make do with less, or ask in other words, or in a wider scope that is granted",
    )


def _unmatched(code: Code, detail: str) -> Because:
    return Because(
        stage=StageName.GENERATE,
        code=code,
        detail=detail,
        owner=Owner.CALLER,
        retryable=False,
        next="ask in other words, or in a wider scope that is granted",
    )
