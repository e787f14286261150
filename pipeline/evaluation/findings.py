"""Findings: what a report says of what was found, where the rest went, and whether anything leaked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from remit.pipeline.evaluation.curves import STEPS
from remit.pipeline.evaluation.drawing import bar, curve, interval
from remit.pipeline.evaluation.markup import (
    Cell,
    Columns,
    Markup,
    card,
    code,
    element,
    figure,
    flag,
    folded,
    joined,
    number,
    pairs,
    section,
    table,
    text,
)

Result = Mapping[str, Any]

APART = {
    "candidateRecall": ("found", "of the evidence came out of a lane"),
    "freshValidRecall": ("on the page", "of the evidence still stood when looked at again"),
    "packedCoverage": ("in the context", "of the evidence was packed"),
    "answerSupport": ("supporting", "of what the task needs was packed"),
}
"""The four that are kept apart, in the order in which evidence goes."""

BESIDE = {
    "authorizedRecall@k": "of the evidence is among the first k cards",
    "nDCG@k": "how early the evidence comes",
    "precision": "of what was returned was wanted, mean of cases",
    "outcomeAccuracy": "of cases had the outcome that was expected",
}

SHOWN = 12
"""Rows of lost evidence and of cases that stand open; the rest is folded."""


def measures(result: Result) -> Markup:
    """The four as a row of steps, then those beside them."""
    steps = [_tile(result, name, f"{place}. {title}", said) for place, (name, (title, said)) in enumerate(APART.items(), start=1)]
    tiles = [
        _tile(result, name, name.replace("@k", f"@{result['k']}"), said.replace("k cards", f"{result['k']} cards"))
        for name, said in BESIDE.items()
    ]
    said = "The four are kept apart: what falls from one to the next was lost between them."
    grids = [Markup(f'<div class="tiles">{joined(*each)}</div>') for each in (steps, tiles)]
    return section("measures", "How good", said, *grids)


def _tile(result: Result, name: str, title: str, said: str) -> Markup:
    value = result["measures"][name]
    shown = element("b", figure(f"measures.{name}", value, None if value is None else f"{value:.3f}"))
    pieces = [element("h3", text(title)), shown, Markup("") if value is None else bar(value), element("span", text(said))]
    return Markup(f'<div class="tile">{joined(*pieces)}</div>')


def comparison(moves: Mapping[str, Mapping[str, Any]] | None, k: int) -> Markup:
    if not moves:
        return Markup("")
    most = max(abs(told[end]) for told in moves.values() for end in ("low", "high"))
    columns = {"measure": "", "before": "n", "now": "n", "difference": "n", "95 % interval": "", "": "", "cases": ""}
    rows = []
    for name, told in moves.items():
        sign = "bad" if told["high"] < 0 else "ok" if told["low"] > 0 else "soft"
        moved = ", ".join(f"{len(told[way])} {way}" for way in ("rose", "fell") if told[way]) or "none moved"
        rows.append(
            [
                text(name.replace("@k", f"@{k}")),
                figure(f"compared.{name}.before", told["before"], f"{told['before']:.3f}"),
                figure(f"compared.{name}.after", told["after"], f"{told['after']:.3f}"),
                element("span", text(f"{told['difference']:+.3f}"), sign),
                text(f"{told['low']:+.3f} … {told['high']:+.3f}"),
                interval(told["low"], told["difference"], told["high"], most),
                text(moved),
            ]
        )
    both = max(told["cases"] for told in moves.values())
    said = (
        f"Means over the {both} cases of both runs, with bootstrap intervals. Where cases are many, an interval without 0 is no accident."
    )
    return section("moved", "What moved", said, card(table("What moved since the other run", columns, rows, quiet=True)))


def exposure(result: Result) -> Markup:
    """Every boundary by name, and the cases at which something came over one."""
    chips = []
    for name, count in result["exposure"].items():
        mark = flag(not count, "")
        chips.append(f"<li>{mark}{text(name)} {figure(f'exposure.{name}', count)}</li>")
    cases = result["exposedCases"]
    told = element("p", text(f"in {', '.join(cases)}"), "bad") if cases else Markup("")
    said = "What a principal may not read, counted at each boundary that text, ids or numbers cross. Every number must be 0."
    return section("exposure", "What leaked", said, card(Markup(f'<ul class="chips">{"".join(chips)}</ul>'), told))


def mutations(result: Result) -> Markup:
    if "mutations" not in result:
        return Markup("")
    rows = [
        [text(each["name"]), text(each["property"]), flag(each["holds"], "holds" if each["holds"] else "broken"), _broken(each)]
        for each in result["mutations"]
    ]
    kind = next((each["store"] for each in result["mutations"] if each["store"]), "a store of its own")
    said = f"Changes to a copy of this memory, in {kind}, and what must hold under each."
    columns = {"mutation": "", "what must hold": "", "verdict": "", "seen": ""}
    return section("mutations", "What holds when the memory changes", said, card(table("Mutations", columns, rows, quiet=True)))


def _broken(each: Mapping[str, Any]) -> Markup:
    named = f": {', '.join(each['cases'][:SHOWN])}{' …' if len(each['cases']) > SHOWN else ''}" if each["cases"] else ""
    return text(each["detail"] + named)


def funnel(result: Result) -> Markup:
    """What came into each stage and what went on, as bars that narrow, with the reasons of what was let go."""
    stages = result["funnel"]
    most = sqrt(max((each["received"] for each in stages), default=0)) or 1.0
    rows = "".join(_step(each, most) for each in stages)
    said = "What came into each stage, all cases together, and what went on. Widths go by square roots; the paler part was let go."
    return section("funnel", "The funnel", said, card(Markup(f'<ol class="funnel">{rows}</ol>')))


def _step(each: Mapping[str, Any], most: float) -> str:
    name, received, returned = each["stage"], each["received"], each["returned"]
    gone, kept = 100 * sqrt(received) / most, 100 * sqrt(returned) / most
    numbers = f"{figure(f'funnel.{name}.received', received)} → {figure(f'funnel.{name}.returned', returned)}"
    reasons = "".join(
        f"<li>{text(reason)} {figure(f'funnel.{name}.rejected.{reason}', count)}</li>" for reason, count in each["rejected"].items()
    )
    cut = f'<li class="bad">cut by its ceiling in {number(each["exhausted"])} cases</li>' if each["exhausted"] else ""
    return (
        f'<li><h3>{text(name)}</h3><p class="n">{numbers}</p>'
        f'<div class="flow" aria-hidden="true"><i class="gone" style="width:{gone:.1f}%"></i>'
        f'<i class="kept" style="width:{kept:.1f}%"></i></div>'
        f'<ul class="reasons">{reasons}{cut}</ul></li>'
    )


def curves(result: Result) -> Markup:
    pictures = [
        card(element("h3", text(stage)), curve(points, STEPS[stage][0]), _points(stage, points))
        for stage, points in result.get("curves", {}).items()
    ]
    said = "Recall of the evidence as one stage is given more to spend, the others as they are. Where a curve is flat, more buys nothing."
    return section(
        "curves", "Recall against budget", said, Markup(f'<div class="pictures">{joined(*pictures)}</div>') if pictures else Markup("")
    )


def _points(stage: str, points: Sequence[Sequence[float]]) -> Markup:
    rows = [[text(f"{budget:g}"), figure(f"curves.{stage}.{budget:g}", recall, f"{recall:.3f}")] for budget, recall in points]
    return folded("as numbers", table(f"Recall by {STEPS[stage][0]}", {STEPS[stage][0]: "n", "recall": "n"}, rows, quiet=True))


def lost(result: Result) -> Markup:
    """First by stage and reason, then piece by piece."""
    if not result["lost"]:
        return section("lost", "Lost evidence", "", card(flag(True, "nothing was lost")))
    where = Counter((each["stage"] or "before any stage", each["reason"]) for each in result["lost"])
    most = max(where.values())
    bars = "".join(
        f'<li><span>{text(stage)}: {text(reason)}</span><i class="poor" style="width:{60 * count / most:.1f}%"></i>'
        f"<b>{figure(f'lost.{stage}.{reason}'.replace(' ', '-'), count)}</b></li>"
        for (stage, reason), count in where.most_common()
    )
    rows = [
        [
            text(each["case"]),
            code(each["id"]),
            text(each["stage"] or "–"),
            text(each["reason"]),
            pairs(each["budget"]),
            pairs(each["numbers"]),
        ]
        for each in result["lost"]
    ]
    columns = {"case": "", "evidence": "", "stage": "", "reason": "", "budget": "", "numbers": ""}
    said = "Which stage let each piece go, why, and what that stage could spend."
    return section("lost", "Lost evidence", said, card(Markup(f'<ul class="bars">{bars}</ul>'), *_open("Lost evidence", columns, rows)))


def cases(result: Result) -> Markup:
    striking = [each for each in result["each"] if _striking(each)]
    rest = [each for each in result["each"] if not _striking(each)]
    columns = {"case": "", "question": "", "outcome": "", "missing": "", "returned besides": "", "ms": "n"}
    told = _open("Cases with something amiss", columns, [_case(each) for each in striking])
    folds = (
        folded(f"{len(rest)} cases as expected", table("Cases as expected", columns, map(_case, rest), quiet=True)) if rest else Markup("")
    )
    said = f"{len(striking)} of {len(result['each'])} have something missing, something nobody asked for, or another outcome than expected."
    return section("cases", "Case by case", said, card(*told, folds))


def _open(caption: str, columns: Columns, rows: Sequence[Sequence[Cell]]) -> list[Markup]:
    """A table of the first rows, and the rest folded."""
    if not rows:
        return []
    first = table(caption, columns, rows[:SHOWN], quiet=True)
    return (
        [first, folded(f"{len(rows) - SHOWN} more", table(f"{caption}, the rest", columns, rows[SHOWN:], quiet=True))]
        if rows[SHOWN:]
        else [first]
    )


def _striking(case: Mapping[str, Any]) -> bool:
    """Whether something about a case is not as it was expected."""
    unlike = case["expected"] is not None and case["expected"] != case["outcome"]
    return bool(case["wrong"] or case["missing"] or case["error"] or unlike)


def _case(each: Mapping[str, Any]) -> list[Cell]:
    outcome = each["error"] or each["outcome"] or ""
    if each["expected"] not in (None, each["outcome"]):
        outcome += f", expected {each['expected']}"
    question = each["query"] if len(each["query"]) < 160 else each["query"][:159] + "…"
    return [
        text(each["name"]),
        text(question),
        text(outcome),
        joined(*(element("span", code(name), "id") for name in each["missing"])),
        joined(*(element("span", code(name), "id") for name in each["wrong"])),
        text(f"{each['ms']:.1f}"),
    ]
