"""The engine: one open store and what can be done with it. The front door of the library and of every face."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from math import isfinite

from remit.pipeline.answering import Answering
from remit.pipeline.authority import Principal, access_to_write, scopes_at
from remit.pipeline.backfill import Embedding, Means, backfills, prune
from remit.pipeline.brief import Brief, brief
from remit.pipeline.carrying import Carried, Whole, exported, imported
from remit.pipeline.doctor import Examination, examined
from remit.pipeline.embedding.streams import Stream
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.fields import name_at, one_of
from remit.pipeline.freshness import FileChecker, Watch
from remit.pipeline.indexing import Indexer
from remit.pipeline.items import Item
from remit.pipeline.life import Event, Forgotten, Name, approve, changed, forget, forgetting, history, paired
from remit.pipeline.remember import remember_stream
from remit.pipeline.roots import Roots
from remit.pipeline.storage.entry import Entry, Receipt, Written
from remit.pipeline.telling import Telling
from remit.pipeline.vectors import Completing, Later, Vectored, with_vectors
from remit.stages.access import EVERY
from remit.stages.evidence import Lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine(Answering):
    """One open store with everything a recall needs; made by `open_engine`. Safe for any number of tasks of one event loop."""

    indexer: Indexer
    whole: Completing
    roots: Roots
    files: FileChecker
    watch: Watch

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
            store=self._writes,
            indexer=self.indexer,
            config=self.config,
            now=self.kit.clock(),
            resolve=partial(self.files.resolved, org=grants.org),
            granted=partial(self._grants, principal),
            complete=self._completed,
        )
        async with aclosing(receipts):
            async for receipt in receipts:
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
        return await approve(memories, grants, store=self._writes, indexer=self.whole, limits=self.config.limits, now=self.kit.clock())

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
        forgotten = await forget(what, grants, store=self._writes, now=self.kit.clock(), dry_run=dry_run)
        if not dry_run:
            self.kit.streams.cache.forget(grants.org)
            self.kit.counts.forget(grants.org)
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
        receipts = imported(memories, granting, store=self._writes, indexer=self.whole, config=self.config, clock=self.kit.clock)
        async with aclosing(receipts):
            async for receipt in receipts:
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
        stated = self._stated(principal)
        every = {EVERY} & set(scopes)
        return stated.org, sorted(every | scopes_at("scopes", [scope for scope in scopes if scope != EVERY], limits))

    async def allow_root(self, path: str, principal: Principal | None = None) -> None:
        """Allows `file:` origins of the principal's org to be looked at in a folder, or in one file. For the host alone."""
        await self.roots.add(self._stated(principal).org, path)

    async def drop_root(self, path: str, principal: Principal | None = None) -> bool:
        """Allows it no longer; whether it was allowed so."""
        return await self.roots.drop(self._stated(principal).org, path)

    async def allowed_roots(self, principal: Principal | None = None) -> Sequence[str]:
        """Where `file:` origins of the principal's org may be looked at: those of the config, then its own, sorted."""
        return await self.roots(self._stated(principal).org)

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
        return await examined(self.store, self.config, self.kit, access_to_write(self._stated(principal), self.kit.clock()))

    @property
    def _writes(self) -> Telling:
        return Telling(self.store, self.changed)

    async def _changed(self, what: Written, memories: Sequence[Name], principal: Principal | None) -> list[Receipt]:
        grants = await self._grants(principal)
        return await changed(what, memories, grants, store=self._writes, limits=self.config.limits, now=self.kit.clock())

    async def _paired(self, what: Written, memory: Name, by: Name, principal: Principal | None) -> Receipt:
        grants = await self._grants(principal)
        return await paired(what, memory, by, grants, store=self._writes, limits=self.config.limits, now=self.kit.clock())

    async def _completed(self, entries: Sequence[Entry]) -> Vectored:
        return await with_vectors(entries, self.kit.streams.passages(entries[0].record.label.shelf.org))
