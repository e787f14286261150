"""Measured: what a person sees of an evaluation on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from remit.pipeline.evaluation.curves import STEPS
from remit.pipeline.evaluation.measures import MEASURES
from remit.pipeline.evaluation.result import loose
from remit.stages.render import shown

SHOWN = 20
"""Pieces of lost evidence, and cases of one kind, that a person gets to see; a program gets all of them."""


def show_result(console: Console, result: Mapping[str, Any]) -> None:
    """The measures, what leaked, what was lost, and how long it took."""
    console.print(Text(f"{shown(result['gold'])}: {result['cases']} cases", style="bold"))
    moves = result.get("compared", {})
    table = _table("measure", "", *(("before → now", "difference", "95 % of resamples") if moves else ()), numbers=(1, 2, 3))
    for name in MEASURES:
        value, move = result["measures"][name], moves.get(name)
        cells: list[str | Text] = [name.replace("@k", f"@{result['k']}"), "–" if value is None else f"{value:.3f}"]
        if move:
            style = "green" if move["low"] > 0 else "red" if move["high"] < 0 else "dim"
            cells += [
                f"{move['before']:.3f} → {move['after']:.3f}",
                Text(f"{move['difference']:+.3f}", style=style),
                f"{move['low']:+.3f} … {move['high']:+.3f}",
            ]
        table.add_row(*cells)
    console.print(table)
    if moves:
        both = max(move["cases"] for move in moves.values())
        console.print(
            Text(f"compared: {both} of {result['cases']} cases, which ask the same under the same name in both runs", style="dim")
        )
    console.print()
    _show_exposure(console, result)
    _show_mutations(console, result)
    _show_amiss(console, result)
    _show_curves(console, result)
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
        if each["cases"]:
            console.print(Text(f"       in {_some(each['cases'])}", style="bold red"))


def _show_amiss(console: Console, result: Mapping[str, Any]) -> None:
    """The cases that could not be asked, ended otherwise than expected, or returned what they must not."""
    amiss = {
        "not answered": [f"{each['name']} ({each['error']})" for each in result["each"] if each["error"]],
        "another outcome than expected": [
            f"{each['name']} ({each['outcome']} for {each['expected']})"
            for each in result["each"]
            if each["outcome"] and each["expected"] not in (None, each["outcome"])
        ],
        "returned what must not be": [f"{each['name']} ({', '.join(each['mustNot'])})" for each in result["each"] if each["mustNot"]],
    }
    for title, cases in amiss.items():
        if cases:
            console.print(Text.assemble((f"{title}: ", "bold red"), _some(cases)))


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(map(shown, names[:SHOWN])) + more


def _show_curves(console: Console, result: Mapping[str, Any]) -> None:
    for stage, points in result.get("curves", {}).items():
        told = ", ".join(f"{budget:,} {recall:.3f}" for budget, recall in points)
        console.print(Text.assemble((f"{stage:<9}", "bold"), f"recall by {STEPS[stage][0]}: {told}"))


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
