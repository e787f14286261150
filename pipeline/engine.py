"""The engine: opens what recalls need, lends it to them, and closes it. The front door of the library and of every face."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from remit.pipeline.analysis import Analyser
from remit.pipeline.asking import Plan, asked
from remit.pipeline.authority import (
    AsStated,
    Authority,
    FromStore,
    Grants,
    Principal,
    access_for,
    access_to_write,
    checked,
    default_principal,
    granted,
    scope_filter,
    scopes_at,
)
from remit.pipeline.backfill import Embedding, Means, backfills, prune
from remit.pipeline.brief import Brief, brief
from remit.pipeline.carrying import Carried, Whole, exported, imported
from remit.pipeline.config import Config, load
from remit.pipeline.continuing import Bound, Continuations, Stopped
from remit.pipeline.counting import HostCounter, counter_named
from remit.pipeline.crews import Crews
from remit.pipeline.digests import BUDGETS, config_digest, digest_of, request_digest
from remit.pipeline.doctor import Examination, examined
from remit.pipeline.embedding.minilm import MiniLMModel
from remit.pipeline.embedding.streams import Stream, Streams, streams_of
from remit.pipeline.envelope import Answer, answered, moment, with_receipt
from remit.pipeline.errors import ConfigError, InvalidRequest, NotAuthorised
from remit.pipeline.fields import name_at, one_of
from remit.pipeline.freshness import Check, FileChecker, Query, Watch
from remit.pipeline.indexing import Indexer
from remit.pipeline.items import Item, memory_id
from remit.pipeline.life import Event, Forgotten, Name, approve, changed, forget, forgetting, history, paired
from remit.pipeline.opening import opened
from remit.pipeline.outcome import Because, Code, fault
from remit.pipeline.recall import Kit, Recalled, recall
from remit.pipeline.receipts import Keeper, Kept, chain_of, mark_of, own_of
from remit.pipeline.remember import remember_stream
from remit.pipeline.replaying import Replayed, Setting, Uncheckable, compared, receipt_of
from remit.pipeline.reranking import Rerankers, rerankers_of
from remit.pipeline.roots import Roots
from remit.pipeline.sealing import Seal
from remit.pipeline.storage.entry import Entry, Receipt, Written
from remit.pipeline.storage.store import Store
from remit.pipeline.times import moment_at
from remit.pipeline.trail import Trail, finish, log, root_span, trace_id
from remit.pipeline.vectors import Completing, Later, Vectored, with_vectors
from remit.pipeline.watching import watch_of
from remit.pipeline.why import Explanation, explained
from remit.stages.access import EVERY, Access
from remit.stages.evidence import Lane
from remit.stages.ports import Embedder, Reranker, TokenCounter
from remit.stages.request import Request, Source

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One open store with everything a recall needs; made by `open_engine`. Safe for any number of tasks of one event loop."""

    config: Config
    store: Store
    kit: Kit
    indexer: Indexer
    whole: Completing
    authority: Authority
    continuations: Continuations
    seal: Seal
    identity: str
    configured: str
    receipts: Keeper | None
    roots: Roots
    files: FileChecker
    watch: Watch

    async def recall(self, request: Request, principal: Principal | None = None) -> Answer:
        """Evidence for a question that this principal may use, why, and what finding it cost.

        Raises `InvalidRequest` for a request that must be changed and `NotAuthorised` for a principal that nobody vouches for;
        everything else, faults and ceilings included, is an outcome of the answer.
        """
        plan = self._planned(request, principal)
        answer, access, _ = await self._answered(plan, request, principal)
        if self.receipts is not None:
            kept = await self.receipts.keep(self._receipt(answer, access, request, principal))
            answer = with_receipt(answer, kept)
        return answer

    async def replay(
        self, receipts: str | Path, requests: Sequence[Request] = (), principal: Principal | None = None, *, only: str | None = None
    ) -> list[Replayed]:
        """What became of the receipts of a file: `identical`, `drifted` or `not_checkable`, each asked again as of then.

        A receipt does not hold its request: that must be among `requests`. `only` names one receipt, by its number or hash. A principal
        replays its own; a host states the principal whose they are. Raises `InvalidRequest`, with the same words whatever is wrong, for a
        chain that is not whole and unchanged, and where nothing in it is this principal's and this store's.
        """
        stated = self._stated(principal)
        chain = await anyio.to_thread.run_sync(chain_of, receipts, self.seal, self.config.limits.line_bytes)
        own = own_of(chain, store=self.identity, org=stated.org, actor=stated.actor, only=only)
        for request in requests:
            asked(request, self.config, self.kit.clock())
        asked_then = {mark_of(request_digest(request), self.seal): request for request in requests}
        return [await self._replayed(each, asked_then.get(each.line["request"]), principal) for each in own]

    async def _replayed(self, kept: Kept, request: Request | None, principal: Principal | None) -> Replayed:
        then = kept.line
        if request is None:
            return Replayed.uncheckable(kept, Uncheckable.NO_REQUEST)
        try:
            plan = self._planned(request, principal)
        except InvalidRequest as error:
            if error.field != "continuation":
                raise
            return Replayed.uncheckable(kept, Uncheckable.CONTINUATION)
        plan = replace(plan, question=replace(plan.question, as_of=moment_at("asOf", then["asOf"])))
        answer, access, recalled = await self._answered(plan, request, principal)

        async def lost(name: str) -> str:
            wanted = memory_id("memory", name, self.config.limits)
            return (await explained(wanted, plan, access, recalled, self.store)).reason

        return await compared(kept, self._receipt(answer, access, request, principal), lost)

    def _receipt(self, answer: Answer, access: Access | None, request: Request, principal: Principal | None) -> dict[str, Any]:
        stated = self._stated(principal)
        setting = Setting(
            store=self.identity,
            org=stated.org,
            actor=stated.actor,
            scopes=None if access is None else EVERY if access.granted is None else tuple(sorted(access.granted)),
            request=mark_of(request_digest(request), self.seal),
            config=self.configured,
            analyser=self.kit.analyser.signature,
            spaces={str(lane): space for lane, space in self.kit.streams.spaces().items()},
        )
        return receipt_of(answer, setting, moment(self.kit.clock()))

    async def _answered(self, plan: Plan, request: Request, principal: Principal | None) -> tuple[Answer, Access | None, Recalled]:
        with _span_of(plan) as span:
            trail = Trail(plan.ceilings)
            access, recalled = await self._recalled(plan, principal, trail)
            answer = answered(
                plan,
                recalled,
                trail,
                scope_filter=scope_filter(access, plan.narrowing) if access else {},
                token_at=partial(self._token, request, principal, plan, access),
                streams=self.kit.streams,
                org=access.org if access else "",
                trace=trace_id(span),
            )
            finish(span, answer.outcome.value, len(answer.data))
            return answer, access, recalled

    async def why(self, request: Request, memory: str, principal: Principal | None = None) -> Explanation:
        """Which stage lost `source:id` for this request, and why, from running it again.

        What the principal may not read and what does not exist are `not_in_scope` alike.
        """
        plan = self._planned(request, principal)
        if request.continuation is not None:
            raise InvalidRequest("continuation", "why is asked of a request as a whole: leave it out")
        wanted = memory_id("memory", memory, self.config.limits)
        with _span_of(plan):
            access, recalled = await self._recalled(plan, principal, Trail(plan.ceilings))
        return await explained(wanted, plan, access, recalled, self.store)

    async def remember(self, items: Iterable[Item], principal: Principal | None = None) -> list[Receipt]:
        """Takes in facts, sessions and docs; one receipt each, in order. A refused item costs the others nothing.

        Raises `StorageUnavailable` when the store cannot be asked; what had its receipt is durable.
        """
        return [receipt async for receipt in self.remember_stream(items, principal)]

    async def remember_stream(
        self, items: Iterable[Item] | AsyncIterable[Item], principal: Principal | None = None
    ) -> AsyncIterator[Receipt]:
        """As `remember`, for more items than fit in memory: receipts come batch by batch."""
        grants = await self._grants(principal)
        receipts = remember_stream(
            items,
            grants,
            store=self.store,
            indexer=self.indexer,
            config=self.config,
            now=self.kit.clock(),
            resolve=partial(self.files.resolved, org=grants.org),
            granted=partial(self._grants, principal),
            complete=self._completed,
        )
        async with aclosing(receipts):
            async for receipt in receipts:
                self.changed()
                yield receipt

    def changed(self, *origins: str) -> None:
        """Tells that these origins were changed, or anything may have been: what was seen of them before is not used again.

        Writes and changes of rights through this engine tell it by themselves; a host calls it before it acknowledges a change.
        """
        if origins:
            self.watch.forget(*origins)
        else:
            self.watch.forget_all()

    async def approve(self, memories: Sequence[Name], principal: Principal | None = None) -> list[Receipt]:
        """Approves `source:id`s that were proposed or rejected, so that they are found; one receipt each, all in one transaction.

        As in all that follows, what the principal may not touch and what is not there are refused `unknown_memory` alike.
        """
        grants = await self._grants(principal)
        receipts = await approve(memories, grants, store=self.store, indexer=self.whole, limits=self.config.limits, now=self.kit.clock())
        self.changed()
        return receipts

    async def reject(self, memories: Sequence[Name], principal: Principal | None = None) -> list[Receipt]:
        """Rejects memories, so that they are not found (any more); one receipt each, all in one transaction."""
        return await self._changed(Written.REJECTED, memories, principal)

    async def restore(self, memories: Sequence[Name], principal: Principal | None = None) -> list[Receipt]:
        """Lets memories stand again that were superseded; one receipt each, all in one transaction."""
        return await self._changed(Written.RESTORED, memories, principal)

    async def supersede(self, older: Name, newer: Name, principal: Principal | None = None) -> Receipt:
        """Lets a memory that stands take the place of an older one, which is no longer found; both stay in the history."""
        return await self._paired(Written.SUPERSEDED, older, newer, principal)

    async def dispute(self, memory: Name, other: Name, principal: Principal | None = None) -> Receipt:
        """Notes that another memory says otherwise: whenever one of them is packed, so is the other, where it is found too."""
        return await self._paired(Written.DISPUTED, memory, other, principal)

    async def forget(
        self,
        memories: Sequence[Name] | None = None,
        principal: Principal | None = None,
        *,
        origin: str | None = None,
        scope: str | None = None,
        actor: str | None = None,
        expired: bool = False,
        dry_run: bool = False,
    ) -> Forgotten:
        """Takes memories out of everything, history and caches included: those named, or all for which every stated condition holds.

        `origin` is a whole URI, `scope` a whole name, `actor` who wrote them; `expired` are those whose `expiresAt` has come. With
        `dry_run` it is only counted what would go. Raises `InvalidRequest` when nothing is stated.
        """
        what = forgetting(memories, origin=origin, scope=scope, actor=actor, expired=expired, limits=self.config.limits)
        grants = await self._grants(principal)
        forgotten = await forget(what, grants, store=self.store, now=self.kit.clock(), dry_run=dry_run)
        if not dry_run:
            self.kit.streams.cache.forget(grants.org)
        self.changed()
        return forgotten

    async def history(self, memory: Name, principal: Principal | None = None) -> tuple[Event, ...]:
        """What happened to a memory, version by version; nothing for one that may not be read and for one that is not there."""
        grants = await self._grants(principal)
        return await history(memory, grants, store=self.store, limits=self.config.limits, now=self.kit.clock())

    async def export(self, principal: Principal | None = None) -> AsyncIterator[Whole]:
        """Everything the principal may read, as it stands and whether or not it does, with history and keys, in order of source and id."""
        page = self.config.remember.batch_items
        async with aclosing(exported(partial(self._grants, principal), store=self.store, page=page, clock=self.kit.clock)) as wholes:
            async for whole in wholes:
                yield whole

    async def import_stream(
        self, memories: Iterable[Carried | Whole] | AsyncIterable[Carried | Whole], principal: Principal | None = None
    ) -> AsyncIterator[Receipt]:
        """Takes in what `export` gave, exactly as it stood; one receipt each, in order, when its batch is durable."""
        granting = partial(self._grants, principal)
        receipts = imported(memories, granting, store=self.store, indexer=self.whole, config=self.config, clock=self.kit.clock)
        async with aclosing(receipts):
            async for receipt in receipts:
                self.changed()
                yield receipt

    async def brief(self, principal: Principal | None = None, *, tokens: int | None = None, project: str | None = None) -> Brief:
        """The start-up brief: every pinned fact first, then what matters most and what is most recent, within its budget."""
        grants = await self._grants(principal)
        return await brief(
            grants, store=self.store, counter=self.kit.counter, config=self.config, now=self.kit.clock(), tokens=tokens, project=project
        )

    async def grant(self, actor: str, scopes: Sequence[str], principal: Principal | None = None) -> Sequence[str]:
        """Grants an actor of the principal's org these scopes in the store's table, and gives all it is granted there, sorted.

        The table is what recalls go by when `authority.grants` is `store`. For the host alone: nothing asks who may grant.
        """
        org, named = self._named(actor, scopes, principal)
        for scope in named:
            await self.store.grant(actor, org, scope)
        self.changed()
        return await self.store.granted(actor, org)

    async def revoke(self, actor: str, scopes: Sequence[str], principal: Principal | None = None) -> Sequence[str]:
        """Takes scopes back from an actor, for every recall that begins from now on, and gives what it is left with."""
        org, named = self._named(actor, scopes, principal)
        for scope in named:
            await self.store.revoke(actor, org, scope)
        self.changed()
        return await self.store.granted(actor, org)

    def _named(self, actor: str, scopes: Sequence[str], principal: Principal | None) -> tuple[str, Sequence[str]]:
        limits = self.config.limits
        name_at("actor", actor, limits.name_characters)
        stated = checked(principal or default_principal(self.config), limits)
        every = {EVERY} & set(scopes)
        return stated.org, sorted(every | scopes_at("scopes", [scope for scope in scopes if scope != EVERY], limits))

    async def allow_root(self, path: str, principal: Principal | None = None) -> None:
        """Allows `file:` origins of the principal's org to be looked at in a folder, or in one file. For the host alone."""
        await self.roots.add(self._org(principal), path)

    async def drop_root(self, path: str, principal: Principal | None = None) -> bool:
        """Allows it no longer; whether it was allowed so."""
        return await self.roots.drop(self._org(principal), path)

    async def allowed_roots(self, principal: Principal | None = None) -> Sequence[str]:
        """Where `file:` origins of the principal's org may be looked at: those of the config, then its own, sorted."""
        return await self.roots(self._org(principal))

    async def embed(
        self, principal: Principal | None = None, *, stream: str | None = None, rate: float | None = None
    ) -> AsyncGenerator[Embedding, None]:
        """Makes the vectors that memories in reach lack, of every configured stream or of one (`semantic`, `local`).

        Tells after each page how far it has come. It may be stopped at any time and begun again, and run beside writers and others
        of its kind. `rate` is the most texts a second. An org whose text may not go where a stream sends it is told `disabled`.
        """
        chosen = self._embeddable(stream, rate)
        longest = (await self.store.capabilities()).dimensions
        granting, settings = partial(self._grants, principal), self.config.embedding.backfill
        means = Means(store=self.store, granted=granting, settings=settings, clock=self.kit.clock, rate=rate)
        later = partial(Later, indexer=self.indexer, store=self.store)
        async with aclosing(backfills(chosen, later, means, streams=self.kit.streams, longest=longest)) as steps:
            async for step in steps:
                yield step

    async def other_spaces(self, principal: Principal | None = None) -> Mapping[str, int]:
        """How many vectors in reach are of spaces that no configured stream has, by space: they are compared with nothing."""
        spaces = await self.store.spaces(access_to_write(await self._grants(principal), self.kit.clock()))
        return {space: number for space, number in sorted(spaces.items()) if space not in self.kit.streams.spaces().values()}

    async def prune(self, principal: Principal | None = None) -> int:
        """Drops the vectors in reach of all spaces that no configured stream has, and tells how many there were."""
        keep = list(self.kit.streams.spaces().values())
        return await prune(keep, partial(self._grants, principal), store=self.store, clock=self.kit.clock)

    def _embeddable(self, stream: str | None, rate: float | None) -> Sequence[Stream]:
        """The streams that were asked for. Raises `InvalidRequest`."""
        if rate is not None and not (isfinite(rate) and rate > 0):
            raise InvalidRequest("rate", "must be more than 0")
        if stream is None:
            return self.kit.streams.all
        lane = one_of("stream", stream, [each.value for each in Lane if each.vector])
        if (found := self.kit.streams.lane(Lane(lane))) is None:
            raise InvalidRequest("stream", f"{lane} is not configured: see embedding.provider")
        return [found]

    async def doctor(self, principal: Principal | None = None) -> Examination:
        """What this store can do and whether it is safe, with the fix for what is not; of an org, what the principal states to reach."""
        stated = checked(principal or default_principal(self.config), self.config.limits)
        return await examined(self.store, self.config, self.kit, access_to_write(stated, self.kit.clock()))

    def _org(self, principal: Principal | None) -> str:
        return checked(principal or default_principal(self.config), self.config.limits).org

    async def _changed(self, what: Written, memories: Sequence[Name], principal: Principal | None) -> list[Receipt]:
        grants = await self._grants(principal)
        receipts = await changed(what, memories, grants, store=self.store, limits=self.config.limits, now=self.kit.clock())
        self.changed()
        return receipts

    async def _paired(self, what: Written, memory: Name, by: Name, principal: Principal | None) -> Receipt:
        grants = await self._grants(principal)
        receipt = await paired(what, memory, by, grants, store=self.store, limits=self.config.limits, now=self.kit.clock())
        self.changed()
        return receipt

    async def _completed(self, entries: Sequence[Entry]) -> Vectored:
        return await with_vectors(entries, self.kit.streams.passages(entries[0].record.label.shelf.org))

    def _planned(self, request: Request, principal: Principal | None) -> Plan:
        """The request's plan: its phrases in the words they are looked up by, from where an earlier answer stopped, when it says so.

        Raises `InvalidRequest` naming the field that is wrong.
        """
        plan = asked(request, self.config, self.kit.clock())
        question = plan.question
        if question.filters.phrases:
            phrases = tuple(" ".join(self.kit.analyser.plain(phrase)) for phrase in question.filters.phrases)
            if "" in phrases:
                raise InvalidRequest(f"phrases[{phrases.index('')}]", "has no word in it")
            question = replace(question, filters=replace(question.filters, phrases=phrases))
            plan = replace(plan, question=question)
        if request.continuation is None:
            return plan
        onward = self.continuations.opened(request.continuation, self._bound(request, principal), plan.continuations)
        return replace(plan, question=replace(question, as_of=onward.as_of or question.as_of), onward=onward)

    def _bound(self, request: Request, principal: Principal | None) -> Bound:
        """What a continuation of this request is good for."""
        stated = self._stated(principal)
        return Bound(actor=stated.actor, org=stated.org, request=request_digest(request, without=BUDGETS))

    def _stated(self, principal: Principal | None) -> Grants:
        return checked(principal or default_principal(self.config), self.config.limits)

    def _token(self, request: Request, principal: Principal | None, plan: Plan, access: Access | None, stopped: Stopped) -> str | None:
        bound = self._bound(request, principal)
        scopes = access.granted if access else frozenset()
        return self.continuations.token(stopped, plan.onward, plan.question.as_of, scopes, bound)

    async def _grants(self, principal: Principal | None) -> Grants:
        return await granted(principal or default_principal(self.config), self.authority, self.config.limits)

    async def _recalled(self, plan: Plan, principal: Principal | None, trail: Trail) -> tuple[Access | None, Recalled]:
        """The recall inside the access that is granted now. Without an answer from the authority, nothing is asked."""
        until = anyio.current_time() + plan.deadline_seconds
        grants = await self._granted(principal, within=plan.deadline_seconds)
        if grants is None:
            return None, Recalled.stopped(fault(None, Code.AUTHORITY))
        grants = plan.onward.left_of(grants)
        access = access_for(grants, plan.narrowing, plan.question.as_of)
        if (refused := _ungranted(access)) is not None:
            return access, Recalled.stopped(refused)
        return access, await recall(plan, access, self.kit, trail, until)

    async def _granted(self, principal: Principal | None, *, within: float) -> Grants | None:
        """What is granted now; nothing when the authority fails, or says nothing in so many seconds."""
        if type(self.authority) is AsStated:
            return self._stated(principal)  # nobody is waited for, and a scope that ends a wait costs more than all of this
        with anyio.move_on_after(within):
            try:
                return await self._grants(principal)
            except (InvalidRequest, NotAuthorised, ConfigError):
                raise
            except Exception as error:  # noqa: BLE001 - an authority is a host's code: when it fails nothing may be read, and that is an outcome
                log.error("authority", **{"error.type": type(error.__cause__ or error).__name__})
        return None


def _span_of(plan: Plan) -> AbstractContextManager[Any]:
    return root_span([source.value for source in plan.question.sources], plan.question.limit, plan.profile)


def _ungranted(access: Access) -> Because | None:
    """A request that asks only for scopes which are not granted is told so, whether or not they hold anything."""
    stated = [access.scopes]
    if access.sources == {Source.FACT}:
        stated.append(access.fact_scopes)
    if not any(scopes and not any(map(access.grants, scopes)) for scopes in stated):
        return None
    return fault(None, Code.UNAUTHORISED, "none of the scopes asked for is granted")


def now_in_utc() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def open_engine(
    store: str,
    *,
    config: Config | str | Path | Mapping[str, Any] | None = None,
    clock: Clock = now_in_utc,
    checkers: Mapping[str, Check] | None = None,
    queries: Mapping[str, Query] | None = None,
    embedder: Embedder | None = None,
    reranker: Reranker | None = None,
    counter: Callable[[str], int | Awaitable[int]] | None = None,
    authority: Authority | None = None,
    receipts: str | Path | None = None,
    rebuild: bool = False,
) -> AsyncIterator[Engine]:
    """Opens a store by its URL (`sqlite:PATH`, `postgresql://…`, `embedded:DIR`, `memory:`) and yields an `Engine`; closes it at the end.

    `config` is laid over the shipped one; `clock` gives aware times; `checkers` look at origins by URI scheme and `queries`, by name,
    at `sql:` ones; `embedder` takes the place of the configured streams and `reranker` of the configured reranker; `counter` counts
    tokens as the caller's model does; `authority` says at each call what a principal is granted. `rebuild` opens a store whose words
    were indexed with another language, to index it anew.
    Raises `ConfigError`, and `StorageUnavailable` with what to do.
    """
    settings = config if isinstance(config, Config) else load(config)
    seal = Seal.of(os.environ)
    analyser = Analyser(settings.analysis.language)
    embedding = settings.embedding.minilm
    model = MiniLMModel(threads=embedding.threads, run_tokens=embedding.run_tokens)
    streams = streams_of(settings, analyser, own=embedder, model=model, environment=os.environ, clock=clock)
    rerankers = rerankers_of(settings, own=reranker, model=model, environment=os.environ, clock=clock)
    await streams.load()
    tokens = HostCounter(counter) if counter else _loaded(settings.context.counter)
    async with _closing(streams, rerankers), opened(store, settings, analyser.signature, rebuild=rebuild) as own:
        roots = Roots(own, settings.freshness.roots)
        files = FileChecker(roots, most_bytes=settings.freshness.most_bytes, threads=settings.freshness.workers)
        watch = watch_of(settings, files, checkers or {}, queries or {})
        indexer = Indexer(analyser, streams.hashes(), settings.chunking, tokens)
        kit = Kit(
            config=settings,
            finder=own,
            reader=own,
            checker=watch,
            streams=streams,
            rerankers=rerankers,
            counter=tokens,
            analyser=analyser,
            crews=Crews(settings.recall.crews),
            clock=clock,
        )
        identity = await own.identity()
        configured = config_digest(settings)
        named = digest_of([identity, analyser.signature, streams.spaces(), configured])
        kept_at = receipts or settings.receipts.file
        yield Engine(
            config=settings,
            store=own,
            kit=kit,
            indexer=indexer,
            whole=Completing(indexer, streams),
            authority=authority or (FromStore(own) if settings.authority.grants == "store" else AsStated()),
            continuations=Continuations(seal, settings, named, clock),
            seal=seal,
            identity=identity,
            configured=configured,
            receipts=Keeper(Path(kept_at), settings.receipts, seal) if kept_at else None,
            roots=roots,
            files=files,
            watch=watch,
        )


@asynccontextmanager
async def _closing(streams: Streams, rerankers: Rerankers) -> AsyncIterator[None]:
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await streams.aclose()
            await rerankers.aclose()


def _loaded(name: str) -> TokenCounter:
    """A model's counter with its vocabulary in memory: loading it takes up to a third of a second, which no recall should wait for."""
    counter = counter_named(name)
    counter.load()
    return counter
