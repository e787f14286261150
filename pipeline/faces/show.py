"""What a person sees of an answer, a brief, an explanation and an examination, in 80 columns and without colours where none belong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from remit.pipeline.brief import Brief
from remit.pipeline.doctor import Examination
from remit.pipeline.why import Explanation
from remit.stages.render import shown

WIDEST = 100
BAR = 14

COLOURS = {"enough": "green", "exhausted": "yellow", "unavailable": "red", "nothing_found": "cyan"}

SENTENCES = {
    "returned": "is in the answer",
    "not_in_scope": "is not among what this principal may read here, or does not exist",
    "no_common_word": "has nothing that the question looked for",
    "stopped": "was not reached: the recall was stopped by a fault",
    "weak": "shares too little with the question",
    "filtered": "does not pass the request's phrases, tags or times",
    "superseded": "was superseded by a newer memory",
    "expired": "is outside the time in which it is valid",
    "over_ceiling": "lay beyond the stage's ceiling",
    "duplicate": "had been found already",
    "collapsed": "is part of a document that a better passage stands for",
    "share": "came after its source's share of the page was used up",
    "limit": "ranked below the limit of the page",
    "gone": "was removed while the question was being answered",
    "revised": "was replaced by a newer version while the question was being answered",
    "withdrawn": "is not approved",
    "changed": "no longer matches its source, which was changed after it was taken in",
    "missing": "has lost its source, which is no longer there",
    "inaccessible": "comes from a source outside the folders that may be read",
    "unverified": "could not be compared with its source",
    "unfinished": "was not looked at before the time or the work ran out",
    "repeats": "says what a better passage in the context says already",
    "oversized": "is larger than the whole room of the context",
    "no_room": "did not fit in what was left of the context",
    "passages": "came after the most passages that the context may hold",
    "seen": "was decided by the answer that this one goes on from",
}
"""Why a memory is where it is, as the end of a sentence that begins with its name; `ops/runbook.md` says more of each."""


def terminal(*, stderr: bool = False) -> Console:
    """The console of this process; nothing that is printed on it is markup."""
    console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    console.width = min(console.width, WIDEST)
    return console


def show_answer(console: Console, answer: Mapping[str, Any], *, context: bool = True) -> None:
    """An answer as on the wire: its outcome and why, the ranked list, the funnel of the stages, and the packed context."""
    data, meta = answer["data"], answer["meta"]
    _outcome(console, data, meta)
    if data:
        console.print()
        _cards(console, data)
    console.print()
    _funnel(console, meta["stages"])
    if context:
        console.print()
        _context(console, meta["context"])


def show_onward(console: Console, token: str, *, lasting: bool) -> None:
    """What the next command takes to go on from this answer; a token dies with this one unless its secret is a `lasting` one."""
    console.print()
    if lasting:
        console.print(Text.assemble(("to go on: ", "bold"), f"--continue {token}"), soft_wrap=True)
    else:
        _aside(console, "to go on from here with another command, set $REMIT_SECRET for both; or ask for all of it with more budget")


def _outcome(console: Console, data: Sequence[Mapping[str, Any]], meta: Mapping[str, Any]) -> None:
    packed = sum(card["packed"] for card in data)
    line = Text.assemble((meta["outcome"].replace("_", " "), f"bold {COLOURS[meta['outcome']]}"))
    line.append(f"  {_counted(len(data), 'memory', 'memories')}, {packed} of them in the context" if data else "  no memory")
    seconds = sum(stage["seconds"] for stage in meta["stages"])
    line.append(f"  {1000 * seconds:.1f} ms", "dim")
    console.print(line)
    for each in meta["because"]:
        where = f"{each['stage']}: " if each["stage"] else ""
        detail = f": {each['detail']}" if each["detail"] else ""
        _aside(console, f"{where}{each['code']}{shown(detail)}", style="")
        again = "; asking again can help" if each["retryable"] else ""
        _aside(console, f"next, for the {each['owner'].replace('_', ' ')}: {each['next']}{again}")
    for told in _manner(meta):
        _aside(console, told)


def _manner(meta: Mapping[str, Any]) -> Iterable[str]:
    """What of the way it was found a person should know."""
    mode, scopes = meta["mode"], meta["scopeFilter"]
    for word, close in mode.get("near", {}).items():
        yield f"“{shown(word)}” stands nowhere here; looked for {', '.join(close)}"
    if degraded := [each for each in mode["degraded"] if each != "near_words"]:
        yield f"degraded: {', '.join(degraded)}"
    if scopes:
        searched = scopes["scopes"] if isinstance(scopes["scopes"], list) else ["every scope"]
        facts = scopes.get("factScopes")
        only = "" if facts is None else f"; facts of {', '.join(facts) or 'no scope'}"
        yield f"searched in {scopes['org']}: {_few(searched)}{only}"


def _cards(console: Console, cards: Sequence[Mapping[str, Any]]) -> None:
    names = [f"{card['source']}:{card['id']}" for card in cards]
    room = max(16, console.width - 44)
    wide = min(room, max(map(cell_len, names)))
    for card, name in zip(cards, names, strict=True):
        mark, style = ("●", "bold") if card["packed"] else ("○", "")
        line = Text.assemble((mark, "green" if card["packed"] else "dim"), f" {card['rank']:>2}  ", (_fitted(name, wide), style))
        chunks = f", {card['chunks']} passages" if card["chunks"] > 1 else ""
        line.append(f"  {card['score']:.4f}  {card['matchedBy']:<7}  ")
        line.append(f"{card['scope']}{chunks}", "dim")
        line.truncate(console.width, overflow="ellipsis")
        console.print(line, no_wrap=True)
        said = Text(f"      {_one_line(card['title'], card['text'])}", style="dim")
        said.truncate(console.width, overflow="ellipsis")
        console.print(said, no_wrap=True)


def _one_line(title: str, text: str) -> str:
    """The title and how the text begins, without a heading that only says the title again."""
    told, headed = " ".join(shown(text).split()), " ".join(shown(title).split())
    if not headed:
        return told
    return f"{headed}: {told.lstrip('# ').removeprefix(headed).lstrip()}"


def _funnel(console: Console, stages: Sequence[Mapping[str, Any]]) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, expand=True, header_style="dim")
    table.add_column("stage")
    table.add_column("in", justify="right")
    table.add_column("")
    table.add_column("out", justify="right")
    table.add_column("", width=BAR)
    table.add_column("let go", ratio=1)
    table.add_column("ms", justify="right")
    most = max((stage["received"] for stage in stages), default=0)
    for stage in stages:
        ran = stage["outcome"] != "skipped"
        table.add_row(
            Text(stage["stage"], style="" if ran else "dim"),
            str(stage["received"]),
            "→",
            str(stage["returned"]),
            _bar(stage["received"], stage["returned"], most),
            _let_go(stage),
            f"{1000 * stage['seconds']:.1f}" if ran else "–",
        )
    console.print(table)


def _bar(received: int, returned: int, most: int) -> Text:
    whole = _cells(received, most)
    kept = min(whole, _cells(returned, most))
    return Text.assemble(("█" * kept, "green"), ("░" * (whole - kept), "dim"))


def _cells(count: int, most: int) -> int:
    """At least one cell for anything at all."""
    return max(1, round(BAR * count / most)) if count else 0


def _let_go(stage: Mapping[str, Any]) -> Text:
    most_first = sorted(stage["rejected"].items(), key=lambda each: -each[1])
    told = Text(", ".join(f"{reason} {count}" for reason, count in most_first))
    cuts = [f"cut by its ceiling of {stage['exhausted']}"] if stage["exhausted"] else []
    cuts += [stage["outcome"]] if stage["outcome"] in ("unavailable", "cancelled", "skipped") else []
    for cut in cuts:
        told.append(("; " if told else "") + cut, "yellow")
    return told


def _context(console: Console, context: Mapping[str, Any]) -> None:
    size = f"context: {_counted(context['passages'], 'passage', 'passages')}, {context['tokens']:,} of {context['budget']:,} tokens"
    console.print(Rule(Text(size, style="bold"), align="left", style="dim"))
    if context["text"]:
        console.print(Text(context["text"]))
        console.print(Rule(style="dim"))
    for each in context["dropped"]:
        same = f", {each['repeats']}" if "repeats" in each else ""
        _aside(console, f"left out: {each['id']} {SENTENCES.get(each['reason'], each['reason'])}{same}")


def show_brief(console: Console, aside: Console, brief: Brief) -> None:
    """The brief itself as it is given to a model; beside it its size and what did not fit."""
    nothing = "Nothing fits into that." if brief.left_out else "Nothing to say yet."
    console.print(Text(brief.text.rstrip("\n")) if brief.text else Text(nothing, style="dim"), soft_wrap=True)
    aside.print(Text(f"{_counted(len(brief.lines), 'line', 'lines')}, {brief.tokens:,} of {brief.budget:,} tokens", style="dim"))
    for memory, reason in brief.left_out:
        aside.print(Text(f"left out: {memory} {SENTENCES.get(reason.value, reason.value)}", style="dim"))


def show_why(console: Console, explanation: Explanation) -> None:
    """One sentence, and the numbers that decided."""
    where = f", says {explanation.stage}" if explanation.stage else ""
    line = Text.assemble((explanation.id, "bold"), f" {SENTENCES.get(explanation.reason, explanation.reason)}{where}.")
    console.print(line)
    told = [f"{name} {_number(value)}" for name, value in explanation.numbers.items()]
    told += [f"{name} {shown(value)}" for name, value in explanation.details.items()]
    if told:
        _aside(console, ", ".join(told))


def show_examination(console: Console, examination: Examination) -> None:
    """What the store is and can do, and what is wrong with it, with the fix."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in examination.facts.items():
        table.add_row(name, Text(shown(value)))
    console.print(table)
    console.print()
    show_faults(console, examination)
    if examination.healthy:
        console.print(Text("healthy", style="bold green"))


def show_faults(console: Console, examination: Examination) -> None:
    for fault in examination.faults:
        console.print(Text.assemble((fault.code, "bold red"), f": {shown(fault.detail)}"))
        _aside(console, f"fix: {fault.fix}", style="")


def _aside(console: Console, text: str, *, style: str = "dim") -> None:
    """A line, or more, two cells in."""
    for line in Text(text, style=style).wrap(console, console.width - 2):
        line.rstrip()
        console.print(Text("  ") + line)


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _counted(count: int, one: str, more: str) -> str:
    return f"{count:,} {one if count == 1 else more}"


def _few(names: Sequence[str]) -> str:
    first = ", ".join(names[:6])
    return f"{first} and {len(names) - 6} more" if len(names) > 6 else first


def _fitted(text: str, cells: int) -> str:
    return set_cell_size(text, cells) if cell_len(text) <= cells else set_cell_size(text, cells - 1) + "…"
