"""Evaluating: the `eval` command's work, from a gold file to a result and its report."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from remit.pipeline.asking import asked
from remit.pipeline.authority import Principal
from remit.pipeline.config import Config
from remit.pipeline.engine import Engine
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.evaluation.curves import curves, rounds
from remit.pipeline.evaluation.gold import Case, cases_from
from remit.pipeline.evaluation.harness import evaluated
from remit.pipeline.evaluation.measures import moved
from remit.pipeline.evaluation.mutations import Opening, as_granted, copied, mutated
from remit.pipeline.evaluation.report import report_of
from remit.pipeline.evaluation.result import Before, before_of, result_of
from remit.pipeline.faces.host import Host, json_file
from remit.pipeline.faces.telemetry import ears
from remit.pipeline.faces.wire import item_from, request_from
from remit.pipeline.items import Item
from remit.pipeline.starting import now_in_utc, open_engine

MUTATIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluating:
    """What an evaluation is to do beyond asking: `memories` are taken into a store of their own and asked instead of the host's,
    `copy` is an empty store that mutations may change, `before` the run that this one is compared with."""

    host: Host
    cases: Sequence[Case]
    gold: str
    memories: Mapping[str, Sequence[tuple[str, Item]]] | None
    k: int
    with_curves: bool
    with_mutations: bool
    copy: str | None = None
    before: Before | None = None

    @classmethod
    def of(
        cls,
        host: Host,
        gold: str,
        *,
        memories: str | None,
        half: str | None,
        k: int | None,
        with_curves: bool,
        with_mutations: bool,
        copy: str | None = None,
        against: str | None = None,
    ) -> Evaluating:
        """Reads and checks the gold file, and the other run, before any store is opened. Raises `InvalidRequest` naming file, line and
        field. An evaluation leaves no receipts: nobody was answered."""
        cases = [case for case in _cases(gold, host.config) if half is None or case.half == half]
        if not cases:
            raise InvalidRequest("half", f"no case of {gold} is of {half!r}")
        if copy is not None and not with_mutations:
            raise InvalidRequest("copy", "is what --mutations change: state both")
        if k is not None and k < 1:
            raise InvalidRequest("k", "must be 1 or more")
        k = k or host.config.evaluation.k
        return cls(
            host=replace(host, config=replace(host.config, receipts=replace(host.config.receipts, file=""))),
            cases=cases,
            gold=gold,
            memories=None if memories is None else _items(memories, host),
            k=k,
            with_curves=with_curves,
            with_mutations=with_mutations,
            copy=copy,
            before=None if against is None else _before(against, cases, k, host.config),
        )

    @property
    def steps(self) -> int:
        """How many recalls this takes, or nearly."""
        settings, asking = self.host.config.evaluation, len(self.cases)
        drawing = rounds(self.cases, settings.budgets, settings.tokens) if self.with_curves else 0
        return asking + drawing + (MUTATIONS * asking if self.with_mutations else 0)

    async def result(self, told: Callable[[int], None]) -> dict[str, Any]:
        """The whole result as JSON."""
        settings, before = self.host.config.evaluation, len(self.cases)
        with ears() as overheard:
            async with self._engine() as engine, self._copy(engine) as open_copy:
                evaluation = await evaluated(engine, self.cases, k=self.k, ears=overheard, told=told)
                drawn = None
                if self.with_curves:
                    drawn = await curves(
                        engine, self.cases, items=settings.budgets, tokens=settings.tokens, told=lambda done: told(before + done)
                    )
                    before += rounds(self.cases, settings.budgets, settings.tokens)
                findings = None
                if open_copy is not None:
                    stated = await as_granted(engine, self.cases)
                    findings = await mutated(open_copy, stated, told=lambda done: told(before + done * len(stated)))
        return result_of(evaluation, gold=self.gold, curves=drawn, findings=findings)

    @asynccontextmanager
    async def _engine(self) -> AsyncIterator[Engine]:
        async with AsyncExitStack() as stack:
            if self.memories is None:
                yield await stack.enter_async_context(self.host.engine())
                return
            folder = stack.enter_context(TemporaryDirectory(prefix="remit-eval-"))
            engine = await stack.enter_async_context(open_engine(f"sqlite:{folder}/memories.db", config=_vouched(self.host.config)))
            await _taken_in(engine, self.memories)
            yield engine

    @asynccontextmanager
    async def _copy(self, engine: Engine) -> AsyncIterator[Opening | None]:
        """A store that holds the same memories and is not used again; opened again and again at one moment, so that no time goes by.
        None where nothing is to be changed."""
        if not self.with_mutations:
            yield None
            return
        with TemporaryDirectory(prefix="remit-eval-") as folder:
            now, embedded = now_in_utc(), self.memories is None and self.host.store.startswith("embedded:")
            url = self.copy or (f"embedded:{folder}/copy" if embedded else f"sqlite:{folder}/copy.db")
            open_copy = partial(open_engine, url, config=_vouched(self.host.config), clock=lambda: now)
            async with open_copy() as copy:
                if await copy.store.records(None, 1):
                    raise InvalidRequest("copy", "must be empty, for what is in it is changed")
                await copied(engine, copy, sorted({case.principal.org for case in self.cases}))
            yield open_copy


def _vouched(config: Config) -> Config:
    """For a store that was just made, where nobody was granted anything: what a principal states is granted."""
    return replace(config, authority=replace(config.authority, grants="host"))


def _cases(gold: str, config: Config) -> list[Case]:
    now = now_in_utc()
    return cases_from(
        _lines("gold", gold),
        file=gold,
        request_from=request_from,
        check=lambda request: asked(request, config, now),
        limits=config.limits,
    )


async def _taken_in(engine: Engine, items: Mapping[str, Sequence[tuple[str, Item]]]) -> None:
    """Takes items in, each into its own org. Raises `InvalidRequest` naming the line that is refused."""
    for org, stated in items.items():
        receipts = await engine.remember([item for _, item in stated], Principal(actor="evaluation", org=org, scopes="*"))
        for (where, _), receipt in zip(stated, receipts, strict=True):
            if receipt.code is not None:
                raise InvalidRequest(where, f"{receipt.code}: {receipt.detail}" if receipt.detail else str(receipt.code))


def _items(file: str, host: Host) -> dict[str, list[tuple[str, Item]]]:
    """Org → (file:line, item) of a file of memories. Raises `InvalidRequest` naming the line that is wrong."""
    by_org: dict[str, list[tuple[str, Item]]] = {}
    for number, line in enumerate(_lines("memories", file), start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            item = item_from(json.loads(line))
        except InvalidRequest as error:
            raise InvalidRequest(f"{where}: {error.field}", error.fact.removeprefix(f"{error.field}: ")) from None
        except (ValueError, RecursionError):
            raise InvalidRequest(where, "is not JSON") from None
        by_org.setdefault(item.org or host.principal.org, []).append((where, item))
    return by_org


def _lines(field: str, file: str) -> Iterator[str]:
    """The lines of a file, one after the other. Raises `InvalidRequest` naming `field` for a file, or the line, that cannot be read."""
    try:
        with Path(file).open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise InvalidRequest(f"{file}:{number}", "is not UTF-8") from None
    except OSError as error:
        raise InvalidRequest(field, f"{file!r} cannot be read: {error.strerror}") from None


def _before(file: str, cases: Sequence[Case], k: int, config: Config) -> Before:
    """The result of another run, as `--json` wrote it. Raises `InvalidRequest` for one that says nothing of these cases."""
    path = Path(file)
    most = max(config.limits.line_bytes, path.stat().st_size if path.is_file() else 0)
    try:
        before = before_of(json_file("against", file, most))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidRequest):
            raise
        raise InvalidRequest("against", f"{file!r} is not the result of an evaluation") from None
    if before.k != k:
        raise InvalidRequest("against", f"{file!r} looked at {before.k} cards, this run at {k}: --k {before.k} makes them alike")
    if not any(before.queries.get(case.name) == case.query for case in cases):
        raise InvalidRequest("against", f"no case of {file!r} has the name and the question of one here")
    return before


def compared(result: Mapping[str, Any], before: Before, config: Config) -> dict[str, Any]:
    """What moved since another run, over the cases that ask the same under the same name."""
    after = {each["name"]: each["measures"] for each in result["each"] if before.queries.get(each["name"]) == each["query"]}
    return dict(moved(before.figures, after, resamples=config.evaluation.resamples, seed=config.evaluation.seed))


def sound(result: Mapping[str, Any]) -> bool:
    """Whether nothing leaked and every property held."""
    return not any(result["exposure"].values()) and all(each["holds"] for each in result.get("mutations", ()))


def writable(file: str) -> None:
    """Raises `InvalidRequest` when a report cannot be written there, which is better known before an hour of asking than after."""
    path = Path(file)
    there = path.exists()
    try:
        path.open("ab").close()
        if not there:
            path.unlink()
    except OSError as error:
        raise InvalidRequest("html", f"{file!r} cannot be written: {error.strerror}") from None


def write_report(file: str, result: Mapping[str, Any]) -> None:
    """Raises `InvalidRequest` when the file cannot be written."""
    try:
        Path(file).write_text(report_of(result, result.get("compared")), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest("html", f"{file!r} cannot be written: {error.strerror}") from None
