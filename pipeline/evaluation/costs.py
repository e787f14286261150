"""Costs: what a report says of time and work, of the routes that were taken, and of how the store goes about its statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remit.pipeline.evaluation.drawing import histogram
from remit.pipeline.evaluation.markup import Cell, Columns, Markup, card, code, element, figure, folded, joined, pairs, section, table, text
from remit.pipeline.evaluation.result import loose
from remit.pipeline.storage.store import Bound

SPREAD = ("count", "mean", "p50", "p90", "p95", "p99", "max")
SPREAD_COLUMNS: Columns = {"": "", **dict.fromkeys(SPREAD, "n")}

SAID = {
    Bound.INDEX: "the index leads to its rows alone",
    Bound.KEY: "by the key that a row of it gave",
    Bound.ROW: "each row's org is looked at",
    Bound.NOTHING: "nothing",
}
"""What keeps a scan within the org, as a person reads it."""


def time(result: Mapping[str, Any]) -> Markup:
    """How long recalls took, by how much their caller may read, and by stage."""
    latency = result["latency"]
    shapes = [_spread("latency", "all", latency)]
    shapes += [_spread(f"latency.{shape.strip('≤> ')}", f"{shape} readable", told) for shape, told in latency["byReadable"].items()]
    stages = [_spread(f"funnel.{each['stage']}.ms", each["stage"], each["ms"]) for each in result["funnel"]]
    picture = histogram([each["ms"] for each in result["each"]], "ms")
    return section(
        "time",
        "Time",
        "Milliseconds of whole recalls, asked one after the other, by how many memories the caller may read; then of each stage.",
        card(
            Markup(f'<div class="half">{picture}</div>'),
            table("Whole recalls, ms", SPREAD_COLUMNS, shapes),
            table("Stages, ms", SPREAD_COLUMNS, stages),
        ),
    )


def work(result: Mapping[str, Any]) -> Markup:
    """How many candidates each case had after each stage, what looking at sources again took, and how long contexts are."""
    told, checks = result["work"], result["work"]["checks"]
    rows = [_spread(f"work.candidates.{stage}", f"candidates after {stage}", spread) for stage, spread in told["candidates"].items()]
    rows += [_spread(f"work.checks.{name}", title, checks[name]) for name, title in _CHECKS.items()]
    rows.append(_spread("tokens", "tokens of the context", result["tokens"]))
    verdicts = (
        element("p", joined(text("Of what was looked at: "), pairs(checks["verdicts"])), "soft") if checks["verdicts"] else Markup("")
    )
    said = "Of one case: candidates, source checks, and tokens."
    return section("work", "Work", said, card(table("Work of one case", SPREAD_COLUMNS, rows, quiet=True), verdicts))


_CHECKS = {"memories": "memories looked at again", "looks": "looks side by side", "ms": "ms of looking again"}


def _spread(where: str, title: str, told: Mapping[str, Any]) -> list[Cell]:
    return [text(title), *(figure(f"{where}.{name}", told[name]) for name in SPREAD)]


def route(result: Mapping[str, Any]) -> Markup:
    told = result["route"]
    rows = [[text(f"route {name}"), pairs(said)] for name, said in told["routes"].items()]
    rows += [[text("done without"), pairs(told["degraded"]) if told["degraded"] else text("nothing")]]
    rows += [[text(f"space {lane}"), code(space) if space else text("none")] for lane, space in told["spaces"].items()]
    facts = [[text(name), text(value)] for name, value in told["store"].items()]
    said = "Which ways of finding ran, in how many cases, and what answers had to do without."
    columns = {"what": "", "told": ""}
    return section(
        "route",
        "Routes and store",
        said,
        card(
            table("Routes", columns, rows, quiet=True), folded("what the store tells of itself", table("Store", columns, facts, quiet=True))
        ),
    )


def plans(result: Mapping[str, Any]) -> Markup:
    """Each statement's scans, and the whole plan folded beneath."""
    if not result["plans"]:
        return Markup("")
    rows: list[list[Cell]] = []
    for plan in result["plans"]:
        for place, scan in enumerate(plan["scans"]):
            first = code(plan["statement"]) if place == 0 else element("span", code(plan["statement"]), "again")
            bound = Bound(scan["within"])
            kept = element("span", text(SAID[bound]), "bad" if bound is Bound.NOTHING else "")
            by = text(f"by {scan['index']}") if scan["index"] else element("span", text("all of it"), "bad")
            rows.append([first, text(scan["table"]), by, kept])
    whole = "".join(f"<h3><code>{text(plan['statement'])}</code></h3><pre>{text(plan['text'])}</pre>" for plan in result["plans"])
    columns = {"statement": "", "looks at": "", "how": "", "kept within the org by": ""}
    said = "How the store goes about the statements of a search, asked for an org that is made up: no content and no count is in a plan."
    astray = loose(result)
    told = (
        f"not kept within an org: {', '.join(astray)}" if astray else f"all {len(rows)} scans go by an index, and within the org that asks"
    )
    return section(
        "plans",
        "Plans",
        said,
        card(
            element("p", text(told), "bad" if astray else "ok"),
            folded(f"{len(rows)} scans of {len(result['plans'])} statements", table("Plans", columns, rows, quiet=True)),
            folded("whole plans", Markup(whole)),
        ),
    )
