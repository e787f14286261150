"""Finding: everything one search asks of Postgres, in one transaction: what is in scope, and then the outlines of what is likely of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import numpy as np
from numpy.typing import NDArray
from psycopg.pq.abc import PGresult

from remit.pipeline.storage.postgres import failures, nearest
from remit.pipeline.storage.postgres.desk import Desk, Transaction
from remit.pipeline.storage.postgres.identity import Identity
from remit.pipeline.storage.postgres.line import ROLLBACK
from remit.pipeline.storage.postgres.means import Means
from remit.pipeline.storage.postgres.nearest import EXACT, Look
from remit.pipeline.storage.postgres.rows import SOURCES, ids, micros, outlines_of, spelled, word_key
from remit.pipeline.storage.postgres.shelves import Remembered, Shelves, Standing
from remit.pipeline.storage.postgres.statements import Command, plain
from remit.pipeline.storage.postgres.wire import Keys, numbers_of, text, texts, triples_of
from remit.pipeline.storage.store import NOTHING_ALLOWED, NOTHING_ASKED, OUT_OF_TIME, RAN
from remit.stages.access import Access
from remit.stages.ceiling import Limit
from remit.stages.evidence import Lane, Outline, Route
from remit.stages.ports import Found, Neighbours, Postings, Probe, Wanted
from remit.stages.report import Degradation, Reason
from remit.stages.request import Source

_NO_KEYS: Keys = np.zeros(0, dtype=np.int64)
LENGTH = (1 << 30) - 1
_NOWHERE = Postings(_NO_KEYS, _NO_KEYS, _NO_KEYS, _NO_KEYS)


class OutOfTime(Exception):
    """The search reached its time limit; what came before stands in its progress."""


@dataclass(slots=True)
class Progress:
    """What routes had finished, for the moment when time is up. Neighbours are by place of the probe and index of the source."""

    passages: int = 0
    words: int = 0
    postings: dict[str, Postings] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    neighbours: dict[tuple[int, int], Neighbours] = field(default_factory=dict)
    compared: dict[Lane, int] = field(default_factory=dict)
    eligible: Keys | None = None
    turns: bool = True
    dead: dict[Reason, int] = field(default_factory=dict)
    routes: dict[Route, str] = field(default_factory=dict)
    degraded: list[Degradation] = field(default_factory=list)
    exhausted: Limit | None = None
    outlines: Mapping[int, Outline] | None = None

    def found(self) -> Found:
        return Found(
            passages=self.passages,
            words=self.words,
            postings=self.postings,
            left_out=self.left_out,
            neighbours=tuple(self.neighbours[place] for place in sorted(self.neighbours)),
            compared=self.compared,
            eligible=self.eligible,
            turns=self.turns,
            dead=self.dead,
            routes=self.routes,
            degraded=tuple(dict.fromkeys(self.degraded)),
            exhausted=self.exhausted,
            outlines=self.outlines,
        )


def unfinished(wanted: Wanted) -> Progress:
    """Every route as it stands before it ran."""
    routes = {Route.LEXICAL: OUT_OF_TIME} if wanted.words else {}
    routes |= {EXACT[probe.lane]: OUT_OF_TIME for probe in wanted.probes}
    return Progress(routes=routes)


async def find(desk: Desk, remembered: Remembered, wanted: Wanted, access: Access) -> Found:
    """What stands in reach. Out of time, it is what the routes had finished by then."""
    progress = unfinished(wanted)
    if wanted.seconds <= 0:
        progress.exhausted = Limit.SECONDS if progress.routes else None
        return progress.found()
    until = anyio.current_time() + wanted.seconds
    async with desk.reading(Identity.of(access), until=until) as transaction:
        search = _Search(desk, transaction, wanted, access, progress, until)
        try:
            await search.run(remembered)
        except OutOfTime:
            progress.exhausted = Limit.SECONDS
        else:
            await search.foresee()
    return progress.found()


class _Search:
    """One search on its way; each step adds what it found to `progress`."""

    def __init__(self, desk: Desk, transaction: Transaction, wanted: Wanted, access: Access, progress: Progress, until: float) -> None:
        self._desk = desk
        self._until = until
        self._transaction = transaction
        self._wanted = wanted
        self._access = access
        self._progress = progress
        self._words = list(dict.fromkeys(wanted.words)) if wanted.postings > 0 else []
        self._filtered = not (wanted.filters.idle and not wanted.without)
        self._values: dict[str, Any] = {}
        self._shelves_of: Mapping[Source, bytes] = {}
        everything = access.granted is None and access.scopes is None and access.fact_scopes is None
        self._of_org = "_of_org" if everything and access.sources == frozenset(Source) else ""
        self._results: deque[PGresult] = deque()
        self._of_many_dead: Sequence[str] = ()
        self._given: dict[tuple[int, str], Mapping[str, bytes]] = {}
        self._refused: tuple[Means | None, list[str | None]] = (None, [])

    async def run(self, remembered: Remembered) -> None:
        standing, asked, foreseen = await self._asked(remembered)
        self._progress.passages, self._progress.words, self._progress.turns = standing.passages, standing.words, standing.turns
        if self._filtered:
            eligible = np.sort(numbers_of(self._next().get_value(0, 0))) if self._possible else _NO_KEYS
            self._progress.eligible = self._values["eligible"] = eligible
        common = self._take_words()
        wanted = asked if foreseen else self._looks(standing)
        self._tell_what_is_compared(standing)
        ways, made = {look.way for look in wanted}, {look.way for look in asked}
        following = [look for look in wanted if look.way not in made]
        for look in asked:
            result = self._look_result(look)
            if look.way in ways:
                following += self._take(look, result)
        if common:
            await self._without_common_words()
        if self._of_many_dead:
            await self._count_many_dead()
        followed, beside = await self._look_on(following)
        self._tell_how(wanted, followed, left=beside)
        if beside:
            self._tell_how(wanted, followed + beside, left=await self._look_exactly(beside))

    async def foresee(self) -> None:
        """Brings the outlines of what is likely to be asked for next, from the same moment. Out of time, what was found stands.

        An exact look that was cut short has ended the transaction, and with it that moment: then nothing more is asked.
        """
        if self._wanted.likely is None or not self._transaction.line.inside:
            return
        keys = self._wanted.likely(self._progress.found())
        if not keys:
            self._progress.outlines = {}
            return
        wanted = np.fromiter(keys, dtype=np.int64, count=len(keys))
        await self._ask([self._command("outlines", keys=wanted), ROLLBACK])
        with suppress(OutOfTime):
            self._progress.outlines = outlines_of(self._next().get_value(0, 0))

    async def _asked(self, remembered: Remembered) -> tuple[Standing, list[Look], bool]:
        """Asks for everything at once, inside the shelves that were in reach the last time, and again when these are others now.

        Gives what stands, the looks that were made, and whether these are all that what stands now calls for.
        """
        known = remembered.get(self._access)
        self._values = {**known.reach, "now": micros(self._access.as_of)}
        shelves, guess = known.shelves, known.standing
        if shelves is None or guess is None:
            await self._ask([self._reached()])
            shelves = Shelves.of(self._next().get_value(0, 0))
            guess = Standing.of(shelves, None)
        while True:
            self._values["shelves"], self._shelves_of = shelves.all, shelves.of_source
            means, asked = self._desk.means, [] if self._filtered else self._looks(guess)
            looking = [command for look in asked for command in self._look(look)]
            await self._ask([self._reached(), self._command("in_their_time"), *self._filter(), *self._lookup(self._words), *looking])
            now = Shelves.of(self._next().get_value(0, 0), shelves)
            if now is shelves:
                break
            shelves, guess = now, Standing.of(now, None)
        standing = Standing.of(shelves, self._next().get_value(0, 0), guess)
        known.shelves, known.standing = shelves, standing
        return standing, asked, standing is guess and means is self._desk.means and not self._filtered

    async def _ask(self, commands: Sequence[Command]) -> None:
        """Puts the results in line; when time was up before all had come, taking one too many says so."""
        answers = await self._transaction.tried(commands)
        if answers.failure is not None and not answers.failure.out_of_time:
            raise failures.told(answers.failure.sqlstate)
        self._results = deque(answers.results)

    def _next(self) -> PGresult:
        if not self._results:
            raise OutOfTime
        return self._results.popleft()

    def _command(self, name: str, **values: Any) -> Command:
        return self._desk.sql[name].given({**self._values, **values})

    def _reached(self) -> Command:
        return self._command("reached_of_all" if self._values["granted"] is None else "reached_of_granted")

    @property
    def _possible(self) -> bool:
        """Whether anything can pass the filters: a phrase without words stands nowhere."""
        return all(phrase.strip() for phrase in self._wanted.filters.phrases)

    def _filter(self) -> list[Command]:
        """The statement that finds what passes the filters, if there are any."""
        if not self._filtered or not self._possible:
            return []
        filters, without = self._wanted.filters, ids(self._wanted.without)
        return [
            self._command(
                "eligible",
                created_from=micros(filters.created_from),
                created_until=micros(filters.created_until),
                all_tags=[spelled(tag) for tag in filters.tags.all],
                any_tags=[spelled(tag) for tag in filters.tags.any] if filters.tags.any else None,
                none_tags=[spelled(tag) for tag in filters.tags.none],
                without_sources=[str(source) for source, _ in without],
                without_ids=[spelled(name) for _, name in without],
                phrases=[f" {spelled(phrase.strip())} " for phrase in filters.phrases] or None,
            )
        ]

    def _lookup(self, words: Collection[str]) -> list[Command]:
        if not words:
            return []
        given = {"words": texts([word_key(word) for word in words])}
        most = self._wanted.postings + 1
        return [self._command(f"{name}{self._of_org}", **given, most=most) for name in ("find_words", "dead")]

    def _take_words(self) -> bool:
        """Takes the places of the words, unless these are more than may be read: then it says so."""
        progress = self._progress
        if not self._words:
            progress.routes[Route.LEXICAL] = NOTHING_ALLOWED if self._wanted.words else NOTHING_ASKED
            self._leave_out(list(dict.fromkeys(self._wanted.words)))
            return False
        places, dead = triples_of(self._next().get_value(0, 0)), self._next()
        if places.shape[1] > self._wanted.postings:
            return True
        self._take_places(self._words, places, dead)
        return False

    def _take_places(self, words: Sequence[str], places: NDArray[np.int64], dead: PGresult) -> None:
        self._progress.postings = _parted(words, places)
        self._progress.routes[Route.LEXICAL] = RAN
        self._take_dead(dead)
        if int.from_bytes(dead.get_value(0, 2) or b"") > self._wanted.postings:
            self._of_many_dead = words

    def _take_dead(self, told: PGresult) -> None:
        counts = zip((Reason.SUPERSEDED, Reason.EXPIRED), (told.get_value(0, column) for column in range(2)), strict=True)
        self._progress.dead = {reason: number for reason, told in counts if told and (number := int.from_bytes(told))}

    async def _count_many_dead(self) -> None:
        """Counts what no longer stands again, each kind up to its own limit: together it was more than is looked at at first."""
        given = {"words": [word_key(word) for word in self._of_many_dead], "most": self._wanted.postings}
        await self._ask([self._command(f"many_dead{self._of_org}", **given)])
        self._take_dead(self._next())

    async def _without_common_words(self) -> None:
        """Looks the words up again, rarest first; what would pass the ceiling on postings is left out."""
        given = {"words": [word_key(word) for word in self._words], "most": self._wanted.postings + 1}
        await self._ask([self._command(f"count_words{self._of_org}", **given)])
        result = self._next()
        places, counts = numbers_of(result.get_value(0, 0)).tolist(), numbers_of(result.get_value(0, 1)).tolist()
        room, fitting = self._wanted.postings, set()
        for count, word in sorted((count, self._words[place - 1]) for place, count in zip(places, counts, strict=True)):
            room -= count
            if room < 0:
                break
            fitting.add(word)
        words = [word for word in self._words if word in fitting]
        if words:
            await self._ask(self._lookup(words))
            self._take_places(words, triples_of(self._next().get_value(0, 0)), self._next())
        self._progress.routes[Route.LEXICAL] = RAN
        self._leave_out([word for word in self._words if word not in fitting])

    def _leave_out(self, words: Sequence[str]) -> None:
        if words:
            self._progress.left_out = tuple(words)
            self._progress.degraded.append(Degradation.COMMON_WORDS_LEFT_OUT)
            self._progress.exhausted = Limit.POSTINGS

    def _looks(self, standing: Standing) -> list[Look]:
        if self._filtered and not self._values["eligible"].size:
            return []
        desk, rows = self._desk, self._wanted.rows
        askable = [(place, probe) for place, (probe, why) in enumerate(self._refusals()) if why is None]
        return nearest.looks(askable, standing.vectors, desk.means, desk.settings, rows, filtered=self._filtered)

    def _look(self, look: Look) -> list[Command]:
        desk = self._desk
        if (given := self._given.get((look.place, look.table))) is None:
            given = self._given[look.place, look.table] = nearest.given(look, desk.means, desk.settings)
        shelves = self._shelves_of.get(look.source, self._values["shelves"])
        values = {**self._values, **given, "shelves": shelves, "source": text(look.source), "most": look.most}
        return nearest.commands(look, desk.sql, values, desk.settings, self._of_org)

    def _refusals(self) -> Sequence[tuple[Probe, str | None]]:
        """The probes, and why nothing is compared with each, as far as is known of the database."""
        means, probes = self._desk.means, self._wanted.probes
        if self._refused[0] is not means:
            self._given.clear()
            self._refused = means, [nearest.refusal(probe, means, self._wanted.rows) for probe in probes]
        return list(zip(probes, self._refused[1], strict=True))

    def _look_result(self, look: Look) -> PGresult:
        for _ in range(nearest.SETTINGS if look.approximate else 0):
            self._next()
        return self._next()

    def _take(self, look: Look, result: PGresult) -> list[Look]:
        """Keeps the neighbours a look brought, and gives the look that has to follow, if any."""
        length = self._desk.means.places[look.table].dimensions
        neighbours, following = nearest.kept(look, result, self._wanted.rows, length, self._desk.settings.exact_most)
        if neighbours is not None:
            self._progress.neighbours[look.place, SOURCES.index(look.source)] = neighbours
        return [following] if following else []

    async def _look_on(self, following: Sequence[Look]) -> tuple[list[Look], list[Look]]:
        """Looks where nobody looked yet, and again where too little was brought, until it is enough.

        Gives these looks, and the exact ones that may be made beside an index that gave enough.
        """
        followed, beside = list[Look](), list[Look]()
        while following:
            beside += [look for look in following if look.beside]
            following = [look for look in following if not look.beside]
            if following:
                await self._ask([command for look in following for command in self._look(look)])
                followed += following
                following = [each for look in following for each in self._take(look, self._look_result(look))]
        return followed, beside

    async def _look_exactly(self, looks: Sequence[Look]) -> Sequence[Look]:
        """Makes these looks as far as a time of their own goes, and gives those it was not enough for: what was found before stands."""
        seconds = self._desk.settings.exact_seconds
        while looks and seconds > 0:
            limit = plain(f"SET LOCAL statement_timeout = {max(1, round(1000 * seconds / len(looks)))}")
            await self._ask([limit, *(command for look in looks for command in self._look(look))])
            results = list(self._results)[1:]
            following = [each for look, result in zip(looks, results, strict=False) for each in self._take(look, result)]
            if len(results) < len(looks):
                if anyio.current_time() >= self._until:
                    raise OutOfTime
                return looks[len(results) :]
            looks = following
        return looks

    def _tell_what_is_compared(self, standing: Standing) -> None:
        """How many vectors each lane may reach, and why a lane compares nothing."""
        progress = self._progress
        for probe, why in self._refusals():
            if why is not None:
                progress.routes[EXACT[probe.lane]] = why
            if why in (nearest.NO_EXTENSION, nearest.NO_PLACE):
                progress.degraded.append(Degradation.NO_VECTORS)
                continue
            progress.compared[probe.lane] = sum(number for (_, space), number in standing.vectors.items() if space == probe.space)
            if why == NOTHING_ALLOWED:
                progress.exhausted = progress.exhausted or Limit.ITEMS

    def _tell_how(self, wanted: Sequence[Look], followed: Sequence[Look], *, left: Sequence[Look]) -> None:
        """By which routes the lanes went."""
        for place, (probe, why) in enumerate(self._refusals()):
            if why is None:
                routes = nearest.told(probe, *([look for look in each if look.place == place] for each in (wanted, followed, left)))
                self._progress.routes |= routes
                if Route.RECENT in routes:
                    self._progress.degraded.append(Degradation.RECENT_ONLY)


def _parted(words: Sequence[str], places: NDArray[np.int64]) -> dict[str, Postings]:
    """Postings of each word, by key, of three rows side by side: numbers of words, from 1 on, passages, and their entries."""
    numbers, keys, entries = places[:, np.lexsort((places[1], places[0]))]
    counts, lengths, sources = entries >> 32, (entries >> 2) & LENGTH, entries & 3
    postings, start = dict.fromkeys(words, _NOWHERE), 0
    for word, end in zip(words, np.searchsorted(numbers, np.arange(2, len(words) + 2)).tolist(), strict=True):
        if end > start:
            postings[word] = Postings(keys[start:end], counts[start:end], lengths[start:end], sources[start:end])
            start = end
    return postings
