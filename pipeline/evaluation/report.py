"""Report: a result as one HTML page that needs nothing from anywhere else, and no script."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from remit.pipeline.evaluation import costs, findings
from remit.pipeline.evaluation.markup import Markup, element, figure, flag, joined, text

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser lets the page do: show its own styles. It loads and runs nothing, whatever a memory or a question says."""


def report_of(result: Mapping[str, Any], comparison: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The page: what it came to, then the measures, what moved, what leaked and what holds, the funnel, the curves, what was lost and
    where, then time and work, routes and plans, and every case."""
    parts = [
        findings.measures(result),
        findings.comparison(comparison, result["k"]),
        findings.exposure(result),
        findings.mutations(result),
        findings.funnel(result),
        findings.curves(result),
        findings.lost(result),
        costs.time(result),
        costs.work(result),
        costs.route(result),
        costs.plans(result),
        findings.cases(result),
    ]
    style = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>Evaluation of {escape(str(result['gold']))}</title><style>{style}</style>"
    )
    body = f"<header>{_head(result)}</header><main>{''.join(parts)}</main>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _head(result: Mapping[str, Any]) -> Markup:
    """What a person who reads no further should know."""
    returned, lost, cases = result["returned"], len(result["lost"]), result["cases"]
    broken = sum(not each["holds"] for each in result.get("mutations", ()))
    leaks = sum(result["exposure"].values())
    marks = [flag(not leaks, f"nothing leaked at {len(result['exposure'])} boundaries" if not leaks else f"{leaks} leaks")]
    if "mutations" in result:
        marks.append(
            flag(not broken, f"all {len(result['mutations'])} properties hold" if not broken else f"{broken} properties are broken")
        )
    marks.append(flag(not returned["mustNot"], f"{returned['mustNot']} that must not be returned"))
    told = joined(
        figure("returned.relevant", returned["relevant"]),
        text(" memories returned that were wanted, "),
        figure("returned.wrong", returned["wrong"]),
        text(" that were not; "),
        figure("lost.count", lost),
        text(f" {'piece' if lost == 1 else 'pieces'} of evidence lost on the way; "),
        figure("latency.half", result["latency"]["p50"], f"{result['latency']['p50']:.1f}"),
        text(" ms for half of the recalls."),
    )
    line = joined(*(element("li", each) for each in marks))
    return joined(
        element("h1", text("Evaluation")),
        element("p", joined(element("code", text(result["gold"])), text(f": {cases} cases, k = {result['k']}")), "soft"),
        element("p", told, "lead"),
        Markup(f'<ul class="chips">{line}</ul>'),
    )
