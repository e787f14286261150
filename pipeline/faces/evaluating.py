"""Evaluating: the `eval` command's work, from a gold file to a result, and what a person sees of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from remit.pipeline.asking import asked
from remit.pipeline.authority import Principal
from remit.pipeline.config import Config
from remit.pipeline.engine import Engine
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.evaluation.curves import curves, rounds
from remit.pipeline.evaluation.gold import Case, cases_from
from remit.pipeline.evaluation.harness import evaluated
from remit.pipeline.evaluation.measures import MEASURES, moved
from remit.pipeline.evaluation.mutations import copied, mutated
from remit.pipeline.evaluation.report import report_of
from remit.pipeline.evaluation.result import figures_of, loose, result_of
from remit.pipeline.faces.host import Host, json_file
from remit.pipeline.faces.telemetry import ears
from remit.pipeline.faces.wire import item_from, request_from
from remit.pipeline.items import Item
from remit.pipeline.starting import now_in_utc, open_engine
from remit.stages.render import shown

MUTATIONS = 5

SHOWN = 20
"""Pieces of lost evidence that a person gets to see; a program gets all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluating:
    """What an evaluation is to do beyond asking: `memories` are taken into a store of their own and asked instead of the host's, and
    `copy` is an empty store that mutations may change."""

    host: Host
    cases: Sequence[Case]
    gold: str
    memories: Mapping[str, Sequence[tuple[str, Item]]] | None
    k: int
    with_curves: bool
    with_mutations: bool
    copy: str | None = None

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
    ) -> Evaluating:
        """Reads and checks the gold file, before any store is opened. Raises `InvalidRequest` naming file, line and field."""
        cases = [case for case in _cases(gold, host.config) if half is None or case.half == half]
        if not cases:
            raise InvalidRequest("half", f"no case of {gold} is of {half!r}")
        if k is not None and k < 1:
            raise InvalidRequest("k", "must be 1 or more")
        return cls(
            host=host,
            cases=cases,
            gold=gold,
            memories=None if memories is None else _items(memories, host),
            k=k or host.config.evaluation.k,
            with_curves=with_curves,
            with_mutations=with_mutations,
            copy=copy,
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
            async with self._engine() as engine:
                evaluation = await evaluated(engine, self.cases, k=self.k, ears=overheard, told=told)
                drawn = None
                if self.with_curves:
                    drawn = await curves(
                        engine, self.cases, items=settings.budgets, tokens=settings.tokens, told=lambda done: told(before + done)
                    )
                    before += rounds(self.cases, settings.budgets, settings.tokens)
                findings = None
                if self.with_mutations:
                    async with self._copy(engine) as open_copy:
                        findings = await mutated(open_copy, self.cases, told=lambda done: told(before + done * len(self.cases)))
        return result_of(evaluation, gold=self.gold, curves=drawn, findings=findings)

    @asynccontextmanager
    async def _engine(self) -> AsyncIterator[Engine]:
        async with AsyncExitStack() as stack:
            if self.memories is None:
                yield await stack.enter_async_context(self.host.engine())
                return
            folder = stack.enter_context(TemporaryDirectory(prefix="remit-eval-"))
            engine = await stack.enter_async_context(open_engine(f"sqlite:{folder}/memories.db", config=self.host.config))
            await _taken_in(engine, self.memories)
            yield engine

    @asynccontextmanager
    async def _copy(self, engine: Engine) -> AsyncIterator[Any]:
        """A store that holds the same memories and is not used again; opened again and again at one moment, so that no time goes by."""
        with TemporaryDirectory(prefix="remit-eval-") as folder:
            now, embedded = now_in_utc(), self.memories is None and self.host.store.startswith("embedded:")
            url = self.copy or (f"embedded:{folder}/copy" if embedded else f"sqlite:{folder}/copy.db")
            open_copy = partial(open_engine, url, config=self.host.config, clock=lambda: now)
            async with open_copy() as copy:
                if await copy.store.records(None, 1):
                    raise InvalidRequest("copy", "must be empty, for what is in it is changed")
                await copied(engine, copy, sorted({case.principal.org for case in self.cases}))
            yield open_copy


def _cases(gold: str, config: Config) -> list[Case]:
    now = now_in_utc()
    try:
        with Path(gold).open(encoding="utf-8-sig") as lines:
            return cases_from(
                lines, file=gold, request_from=request_from, check=lambda request: asked(request, config, now), limits=config.limits
            )
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable("gold", gold, error) from None


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
    try:
        lines = Path(file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable("memories", file, error) from None
    for number, line in enumerate(lines, start=1):
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


def _unreadable(field: str, file: str, error: OSError | UnicodeDecodeError) -> InvalidRequest:
    return InvalidRequest(field, f"{file!r} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}")


def compared(result: Mapping[str, Any], against: str, config: Config) -> dict[str, Any]:
    """What moved since the result of another run, as `--json` wrote it."""
    other = json_file("against", against, config.limits.line_bytes)
    try:
        before = figures_of(other)
    except (KeyError, TypeError, AttributeError):
        raise InvalidRequest("against", f"{against!r} is not the result of an evaluation") from None
    return dict(moved(before, figures_of(result), resamples=config.evaluation.resamples, seed=config.evaluation.seed))


def sound(result: Mapping[str, Any]) -> bool:
    """Whether nothing leaked and every property held."""
    return not any(result["exposure"].values()) and all(each["holds"] for each in result.get("mutations", ()))


def write_report(file: str, result: Mapping[str, Any]) -> None:
    """Raises `InvalidRequest` when the file cannot be written."""
    try:
        Path(file).write_text(report_of(result, result.get("compared")), encoding="utf-8")
    except OSError as error:
        raise InvalidRequest("html", f"{file!r} cannot be written: {error.strerror}") from None


def show_result(console: Console, result: Mapping[str, Any]) -> None:
    """The measures, what leaked, what was lost, and how long it took."""
    console.print(Text(f"{shown(result['gold'])}: {result['cases']} cases", style="bold"))
    moves = result.get("compared", {})
    table = _table("measure", "", *(("before", "difference", "95 % of resamples") if moves else ()), numbers=(1, 2, 3))
    for name in MEASURES:
        value, move = result["measures"][name], moves.get(name)
        cells: list[str | Text] = [name.replace("@k", f"@{result['k']}"), "–" if value is None else f"{value:.3f}"]
        if move:
            style = "green" if move["low"] > 0 else "red" if move["high"] < 0 else "dim"
            cells += [f"{move['before']:.3f}", Text(f"{move['difference']:+.3f}", style=style), f"{move['low']:+.3f} … {move['high']:+.3f}"]
        table.add_row(*cells)
    console.print(table)
    console.print()
    _show_exposure(console, result)
    _show_mutations(console, result)
    _show_lost(console, result)
    latency, tokens, returned = result["latency"], result["tokens"], result["returned"]
    console.print(
        Text(
            f"returned {returned['relevant']} relevant and {returned['wrong']} other memories; context {tokens['mean']:.0f} tokens",
            style="dim",
        )
    )
    _show_work(console, result)
    console.print(Text(f"p50 {latency['p50']:.1f}, p95 {latency['p95']:.1f}, p99 {latency['p99']:.1f} ms", style="dim"))


def _show_work(console: Console, result: Mapping[str, Any]) -> None:
    """How much went through the stages in the mean, and whether all that the store scans is within the org that asks."""
    work, scans = result["work"], sum(len(plan["scans"]) for plan in result["plans"])
    candidates = ", ".join(f"{spread['mean']:.1f} after {stage}" for stage, spread in work["candidates"].items())
    checks = work["checks"]["memories"]["mean"]
    console.print(Text(f"candidates of a case: {candidates}; {checks:.1f} looked at again at their sources", style="dim"))
    if astray := loose(result):
        console.print(Text(f"plans: not kept within an org: {', '.join(astray)}", style="bold red"))
    elif scans:
        console.print(Text(f"plans: all {scans} scans go by an index, and within the org that asks", style="dim"))


def _show_exposure(console: Console, result: Mapping[str, Any]) -> None:
    leaks = {name: count for name, count in result["exposure"].items() if count}
    if leaks:
        told = ", ".join(f"{name} {count}" for name, count in leaks.items())
        console.print(Text(f"exposed: {told}; in {', '.join(map(shown, result['exposedCases']))}", style="bold red"))
    else:
        console.print(Text(f"exposed: nothing, at {len(result['exposure'])} boundaries", style="green"))


def _show_mutations(console: Console, result: Mapping[str, Any]) -> None:
    for each in result.get("mutations", ()):
        word, style = ("holds", "green") if each["holds"] else ("broken", "bold red")
        console.print(Text.assemble((f"{word:<7}", style), f"{each['name']}: {each['property']}"))


def _show_lost(console: Console, result: Mapping[str, Any]) -> None:
    if not result["lost"]:
        return
    table = _table("lost", "evidence", "stage", "reason", "budget")
    for each in result["lost"][:SHOWN]:
        budget = ", ".join(f"{name} {value:g}" for name, value in each["budget"].items())
        table.add_row(*(Text(shown(str(cell))) for cell in (each["case"], each["id"], each["stage"] or "–", each["reason"], budget)))
    console.print(table)
    if len(result["lost"]) > SHOWN:
        where = Counter(f"{each['stage'] or '–'} {each['reason']}" for each in result["lost"])
        told = ", ".join(f"{name} {count:,}" for name, count in where.most_common())
        console.print(Text(f"… and {len(result['lost']) - SHOWN:,} more; of all: {told}", style="dim"))


def _table(*names: str, numbers: Sequence[int] = ()) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place in numbers else "left")
    return table
