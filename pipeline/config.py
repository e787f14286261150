"""Configuration: the shipped config.toml, what a host lays over it, and the checked values that come of both."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from remit.pipeline.errors import ConfigError
from remit.stages.bm25 import Words
from remit.stages.boosts import Boosts
from remit.stages.fusion import Fusion
from remit.stages.request import Source
from remit.stages.selection import Selection
from remit.stages.turns import Turns

SHIPPED = Path(__file__).parent.parent / "config.toml"

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Similarity = Annotated[float, Field(ge=0, le=1)]
Factor = Annotated[float, Field(gt=0)]
Seconds = Annotated[float, Field(ge=0)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Unverified = Literal["drop", "mark"]


class _Checked:
    """Fields are camelCase in TOML, unknown keys are refused, numbers are numbers."""

    __pydantic_config__ = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalDefault(_Checked):
    actor: Name
    org: Name
    scopes: Literal["*"] | list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthoritySettings(_Checked):
    grants: Literal["host", "store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerSource(_Checked):
    fact: Share
    session: Share
    doc: Share

    def of(self, source: Source) -> float:
        return float(getattr(self, source))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCeiling(_Checked):
    items: Count
    seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateCeiling(StageCeiling):
    postings: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCeiling(StageCeiling):
    rerank: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCeiling(StageCeiling):
    rounds: Annotated[int, Field(ge=1, le=10)]
    continuations: Annotated[int, Field(ge=0, le=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCeiling(StageCeiling):
    tokens: Count
    passages: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(_Checked):
    generate: GenerateCeiling
    dedupe: StageCeiling
    rank: RankCeiling
    verify: VerifyCeiling
    pack: PackCeiling


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewSizes(_Checked):
    generate: Positive
    rank: Positive
    verify: Positive
    pack: Positive
    per_org: Positive
    wait_seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall(_Checked):
    limit: Positive
    most_limit: Positive
    evidence_minimum: Positive
    profile: str
    deadline_seconds: Factor
    tie_break_order: list[Source]
    lane_share: PerSource
    boosts: Boosts
    fusion: Fusion
    selection: Selection
    words: Words
    turns: Turns
    profiles: dict[str, Profile]
    crews: CrewSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(_Checked):
    format: Literal["markdown", "xml", "json"]
    counter: Annotated[str, Field(pattern=r"^(o200k|cl100k|llama3|qwen3|.+\.json)$")]
    counted_passages: Count
    repeats: Similarity
    excerpts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuing(_Checked):
    seconds: Factor
    seen: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipts(_Checked):
    file: str
    wait_seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief(_Checked):
    tokens: Count
    most_tokens: Count
    seconds: Factor
    pinned: Count
    important: Count
    recent: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniLMSettings(_Checked):
    threads: Positive
    run_tokens: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAI(_Checked):
    model: Annotated[str, Field(max_length=200)]
    revision: Annotated[str, Field(max_length=200)]
    dimensions: Annotated[int, Field(ge=2, le=16_384)]
    shortened: bool
    question_prefix: Annotated[str, Field(max_length=1000)]
    passage_prefix: Annotated[str, Field(max_length=1000)]
    batch_texts: Positive
    batch_characters: Positive
    text_characters: Positive
    extra_calls: Count
    question_places: Positive
    passage_places: Positive
    question_seconds: Factor
    passage_seconds: Factor


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSettings(_Checked):
    page_texts: Positive
    lease_seconds: Seconds
    tries: Positive
    longest_wait_seconds: Seconds
    poll_seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding(_Checked):
    provider: Literal["local", "minilm", "openai", "none"]
    semantic_dimensions: Annotated[int, Field(ge=129, le=2000)]
    cached_questions: Count
    backfill: BackfillSettings
    minilm: MiniLMSettings
    openai: OpenAI


@dataclass(frozen=True, slots=True, kw_only=True)
class Reranking(_Checked):
    provider: Literal["none", "maxsim", "remote"]
    seconds: Seconds
    model: Annotated[str, Field(max_length=200)]
    text_characters: Positive
    tokens: Positive
    places: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundSettings(_Checked):
    embedding_orgs: Literal["*"] | list[Name]
    reranking_orgs: Literal["*"] | list[Name]
    fair_seconds: Factor
    cool_seconds: Factor
    longest_cool_seconds: Factor
    longest_retry_after_seconds: Factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis(_Checked):
    language: Annotated[str, Field(pattern="^[a-z]+$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking(_Checked):
    tokens: Annotated[int, Field(ge=16)]
    overlap: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness(_Checked):
    roots: list[str]
    workers: Positive
    batch: Positive
    check_seconds: Factor
    most_bytes: Positive
    hosts: list[str]
    networks: list[str]
    redirects: Count
    reuse_seconds: Seconds
    deny_seconds: Seconds
    reuse_most: Positive
    unverified: Unverified
    unverified_of: dict[Name, Unverified]

    def keeps_unverified(self, org: str) -> bool:
        return self.unverified_of.get(org, self.unverified) == "mark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember(_Checked):
    batch_items: Positive
    batch_characters: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(_Checked):
    query_characters: Positive
    text_characters: Positive
    list_items: Positive
    name_characters: Positive
    scopes: Positive
    phrases: Positive
    questions: Positive
    line_bytes: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Sqlite(_Checked):
    readers: Positive
    busy_seconds: Seconds
    slow_lock_seconds: Factor
    cache_kilobytes: Positive
    seek_shelves: Positive
    whole_vectors: Count
    vector_slack: Positive
    check_steps: Annotated[int, Field(ge=10)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded(_Checked):
    start_seconds: Factor
    stop_seconds: Factor
    connections: Annotated[int, Field(ge=10)]
    shared_megabytes: Annotated[int, Field(ge=16)]
    client_check_seconds: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres(_Checked):
    connections: Positive
    wait_seconds: Seconds
    connect_seconds: Factor
    statement_seconds: Factor
    write_seconds: Factor
    slow_lock_seconds: Factor
    cancel_seconds: Seconds
    safety_seconds: Seconds
    prepare: bool
    role: Annotated[str, Field(pattern="^[a-z_][a-z0-9_]{0,62}$")]
    profile: Literal["plain", "cluster"]
    exact_rows: Count
    exact_most: Count
    exact_seconds: Seconds
    vector_slack: Positive
    ef_search: Annotated[int, Field(ge=1, le=1000)]
    iterative_scan: Literal["strict_order", "relaxed_order"]
    max_scan_tuples: Positive
    remembered_accesses: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(_Checked):
    k: Positive
    budgets: list[Positive]
    tokens: list[Positive]
    resamples: Positive
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(_Checked):
    principal: PrincipalDefault
    authority: AuthoritySettings
    recall: Recall
    context: Context
    continuing: Continuing
    receipts: Receipts
    brief: Brief
    embedding: Embedding
    reranking: Reranking
    outbound: OutboundSettings
    analysis: Analysis
    chunking: Chunking
    freshness: Freshness
    remember: Remember
    evaluation: Evaluation
    limits: Limits
    sqlite: Sqlite
    postgres: Postgres
    embedded: Embedded


_ADAPTER = TypeAdapter(Config)


def load(over: str | Path | Mapping[str, Any] | None = None) -> Config:
    """The shipped configuration with `over` (a TOML file or a mapping of the same shape) laid over it.

    Raises `ConfigError` naming every key that is unknown, missing or out of range.
    """
    values = _parsed(SHIPPED)
    if over is not None:
        values = _laid_over(values, over if isinstance(over, Mapping) else _parsed(Path(over)))
    try:
        # JSON mode, because strict Python mode wants dataclass instances; TOML dates become text, which no key takes.
        config = _ADAPTER.validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise ConfigError("; ".join(_told(each) for each in error.errors())) from None
    _check_together(config)
    return config


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path.name}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path.name}: {error}") from None


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        beneath = merged.get(key)
        merged[key] = _laid_over(beneath, value) if isinstance(beneath, Mapping) and isinstance(value, Mapping) else value
    return merged


def _told(error: Mapping[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    return f"{path}: {'unknown key' if error['type'] == 'unexpected_keyword_argument' else error['msg']}"


def _check_together(config: Config) -> None:
    recall = config.recall
    if recall.profile not in recall.profiles:
        raise ConfigError(f"recall.profile: {recall.profile!r} is not one of {', '.join(recall.profiles)}")
    if sorted(recall.tie_break_order) != sorted(Source):
        raise ConfigError("recall.tieBreakOrder: must name fact, session and doc once each")
    if recall.limit > recall.most_limit:
        raise ConfigError("recall.limit: above recall.mostLimit")
    if config.freshness.deny_seconds > config.freshness.reuse_seconds:
        raise ConfigError("freshness.denySeconds: above freshness.reuseSeconds")
    for lane in ("lexical", "local", "semantic"):
        if getattr(recall.selection, lane) < getattr(recall.selection.floor, lane):
            raise ConfigError(f"recall.selection.{lane}: below recall.selection.floor.{lane}")
