"""Report: a result as one HTML page that needs nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from remit.pipeline.evaluation.curves import STEPS
from remit.pipeline.evaluation.drawing import bar, curve, funnel, histogram
from remit.pipeline.evaluation.measures import MEASURES

SAID = {
    "candidateRecall": "of the evidence, found by any lane",
    "freshValidRecall": "of the evidence, on the page after looking again",
    "packedCoverage": "of the evidence, in the context",
    "answerSupport": "of what the task needs, in the context",
    "authorizedRecall@k": "of the evidence, among the first k cards",
    "nDCG@k": "how early the evidence comes",
    "precision": "of what was returned, wanted; mean of cases",
    "outcomeAccuracy": "cases with the expected outcome",
}

STYLE = """
:root{--ink:#1d2430;--soft:#667085;--line:#e4e7ec;--page:#f7f8fa;--card:#fff;--good:#1f9d6b;--fair:#d79b28;--poor:#d2483d;--blue:#3d6fd8;
--pale:#cfdcf6}
@media(prefers-color-scheme:dark){:root{--ink:#e8ebf0;--soft:#98a2b3;--line:#2c3442;--page:#12161d;--card:#1a202a;--pale:#2b3c60;--blue:#6f9bff}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:15px/1.55 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:40px 24px 80px}h1{font-size:28px;margin:0}h2{font-size:19px;margin:44px 0 12px}
p.soft,.soft{color:var(--soft)}.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(235px,1fr));gap:14px;margin-top:22px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:16px 18px}.tile b{display:block;font-size:27px;
font-variant-numeric:tabular-nums;margin:2px 0 6px}.tile span{color:var(--soft);font-size:13px}.bar{width:100%;height:6px;display:block}
.track{fill:var(--line)}.good{fill:var(--good)}.fair{fill:var(--fair)}.poor{fill:var(--poor)}.kept{fill:var(--blue)}.gone{fill:var(--pale)}
svg text{fill:var(--ink);font:13px system-ui,sans-serif}
svg .tick{fill:var(--soft);font-size:10.5px}svg .axis{fill:var(--soft);font-size:12px}
svg .grid{stroke:var(--line)}svg polyline{fill:none;stroke:var(--blue);stroke-width:2.2}svg circle{fill:var(--blue)}.funnel{width:100%}

.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:14px}
.pair h3{font-size:14px;margin:0 0 4px}.curve{width:100%}

table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th{color:var(--soft);font-weight:500;text-align:left}
th,td{padding:7px 10px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right}
.chips{display:flex;flex-wrap:wrap;gap:10px}.chips div{border:1px solid var(--line);border-radius:20px;padding:4px 14px;font-size:14px}
.ok{color:var(--good);font-weight:600}.bad{color:var(--poor);font-weight:600}code{font:13px ui-monospace,monospace}
details summary{cursor:pointer;color:var(--soft);margin:8px 0}
"""


def report_of(result: Mapping[str, Any], comparison: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The page: the measures, what was exposed, the funnel, the curves, what was lost and where, times, and every case."""
    parts = [
        _head(result),
        _tiles(result),
        _comparison(comparison) if comparison else "",
        _section("Exposure", "What a principal may not read, counted at each boundary. Every number must be 0.", _exposure(result)),
        _mutations(result),
        _section(
            "The funnel", "What came into each stage, all cases together, and what went on. Widths go by square roots.", _funnel(result)
        ),
        _curves(result),
        _section("Lost evidence", "Which stage let it go, why, and what that stage could spend.", _lost(result)),
        _section("Time", "Of whole recalls, one after the other.", _time(result)),
        _section("Route and plan", "How answers were found in this store.", _route(result)),
        _section("Cases", "", _cases(result)),
    ]
    title = f"<title>Evaluation of {escape(str(result['gold']))}</title>"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">{title}<style>{STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body><main>{"".join(parts)}</main></body></html>\n'


def _head(result: Mapping[str, Any]) -> str:
    returned = result["returned"]
    told = f"{result['cases']} cases, k = {result['k']}; {returned['relevant']} relevant and {returned['wrong']} other memories returned"
    return f'<h1>Evaluation</h1><p class="soft"><code>{escape(str(result["gold"]))}</code>: {escape(told)}</p>'


def _tiles(result: Mapping[str, Any]) -> str:
    tiles = []
    for name in MEASURES:
        value = result["measures"][name]
        shown = "–" if value is None else f"{value:.3f}"
        tiles.append(
            f'<div class="tile">{escape(_named(name, result))}<b>{shown}</b>'
            f"{'' if value is None else bar(value)}<span>{escape(SAID[name])}</span></div>"
        )
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _named(name: str, result: Mapping[str, Any]) -> str:
    return name.replace("@k", f"@{result['k']}")


def _section(title: str, said: str, body: str) -> str:
    return f'<h2>{escape(title)}</h2>{f"<p class=soft>{escape(said)}</p>" if said else ""}<div class="card">{body}</div>'


def _exposure(result: Mapping[str, Any]) -> str:
    cells = "".join(f"<div>{escape(name)} {_flag(not count, str(count))}</div>" for name, count in result["exposure"].items())
    return f'<div class="chips">{cells}</div>'


def _mutations(result: Mapping[str, Any]) -> str:
    if "mutations" not in result:
        return ""
    rows = []
    for each in result["mutations"]:
        flag = _flag(each["holds"], "holds" if each["holds"] else "broken")
        rows.append([escape(each["name"]), escape(each["property"]), flag, escape(each["detail"])])
    said = "Changes to a copy of this memory, and what must hold under them."
    return _section("Mutations", said, _table(["mutation", "what must hold", "", ""], rows))


def _funnel(result: Mapping[str, Any]) -> str:
    rows = []
    for each in result["funnel"]:
        let_go = ", ".join(f"{reason} {count:,}" for reason, count in each["rejected"].items())
        rows.append([escape(each["stage"]), escape(let_go), str(each["exhausted"])])
    return funnel(result["funnel"]) + _table(["stage", "let go", "cases cut by its ceiling"], rows, numbers=(2,))


def _curves(result: Mapping[str, Any]) -> str:
    if "curves" not in result:
        return ""
    pictures = "".join(
        f'<div class="card"><h3>{escape(stage)}</h3>{curve(points, STEPS[stage][0])}</div>' for stage, points in result["curves"].items()
    )
    said = "Recall of the evidence as one stage is given more to spend and the others are left as they are."
    return f'<h2>Recall against budget</h2><p class="soft">{said}</p><div class="pair">{pictures}</div>'


def _lost(result: Mapping[str, Any]) -> str:
    if not result["lost"]:
        return '<span class="ok">nothing was lost</span>'
    rows = [
        [
            escape(each["case"]),
            f"<code>{escape(each['id'])}</code>",
            escape(each["stage"] or "–"),
            escape(each["reason"]),
            escape(_pairs(each["budget"])),
            escape(_pairs(each["numbers"])),
        ]
        for each in result["lost"]
    ]
    return _table(["case", "evidence", "stage", "reason", "budget", "numbers"], rows)


def _time(result: Mapping[str, Any]) -> str:
    latency, columns = result["latency"], ("count", "mean", "p50", "p90", "p95", "p99", "max")
    rows = [["all", *(_number(latency[each]) for each in columns)]]
    rows += [[f"{escape(shape)} readable", *(_number(told[each]) for each in columns)] for shape, told in latency["byReadable"].items()]
    picture = histogram([each["ms"] for each in result["each"]], "ms")
    tokens = result["tokens"]
    return (
        picture
        + _table(["", *columns], rows, numbers=range(1, 8))
        + (f'<p class="soft">context: {tokens["mean"]:.0f} tokens in the mean, {tokens["max"]:.0f} at most</p>')
    )


def _route(result: Mapping[str, Any]) -> str:
    route = result["route"]
    rows = [["route " + escape(name), escape(_pairs(said))] for name, said in route["routes"].items()]
    rows += [["done without", escape(_pairs(route["degraded"]) or "nothing")]]
    rows += [[f"space {escape(lane)}", f"<code>{escape(space)}</code>"] for lane, space in route["spaces"].items()]
    rows += [[escape(name), escape(str(value))] for name, value in route["plan"].items()]
    return _table(["", ""], rows)


def _cases(result: Mapping[str, Any]) -> str:
    striking = [each for each in result["each"] if _striking(each)]
    rest = [each for each in result["each"] if not _striking(each)]
    folded = f"<details><summary>{len(rest)} cases as expected</summary>{_case_table(rest)}</details>" if rest else ""
    return _case_table(striking) + folded


def _striking(case: Mapping[str, Any]) -> bool:
    """Whether something about a case is not as it was expected."""
    unlike = case["expected"] is not None and case["expected"] != case["outcome"]
    return bool(case["wrong"] or case["missing"] or case["error"] or unlike)


def _case_table(cases: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            escape(each["name"]),
            escape(each["query"] if len(each["query"]) < 160 else each["query"][:159] + "…"),
            escape(each["error"] or each["outcome"] or ""),
            escape(", ".join(each["missing"])),
            escape(", ".join(each["wrong"])),
        ]
        for each in cases
    ]
    return _table(["case", "question", "outcome", "missing", "returned besides"], rows) if rows else ""


def _comparison(comparison: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, told in comparison.items():
        sign = "bad" if told["high"] < 0 else "ok" if told["low"] > 0 else "soft"
        rows.append(
            [
                escape(name),
                f"{told['before']:.3f}",
                f"{told['after']:.3f}",
                f'<span class="{sign}">{told["difference"]:+.3f}</span>',
                f"{told['low']:+.3f} … {told['high']:+.3f}",
                f"{len(told['rose'])} rose, {len(told['fell'])} fell",
            ]
        )
    said = "Mean differences over the same cases, with 95 % bootstrap intervals."
    return _section("What moved", said, _table(["measure", "before", "now", "difference", "interval", "cases"], rows, numbers=range(1, 5)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    """A table of cells that are HTML already."""
    right = set(numbers)
    kind = ['class="n"' if place in right else "" for place in range(len(head))]
    top = "".join(f"<th {kind[place]}>{escape(name)}</th>" for place, name in enumerate(head))
    body = "".join("<tr>" + "".join(f"<td {kind[place]}>{cell}</td>" for place, cell in enumerate(row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _flag(fine: bool, said: str) -> str:
    return f'<span class="{"ok" if fine else "bad"}">{escape(said)}</span>'


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in values.items())


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
