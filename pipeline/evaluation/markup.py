"""Markup: the pieces that a report is put together from, of text that is escaped here and of markup that is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NewType

Markup = NewType("Markup", str)
"""Text that is HTML already."""

Cell = str | Markup
Columns = Mapping[str, str]
"""Heading → its kind: "" for text, "n" for numbers."""


def text(value: object) -> Markup:
    return Markup(escape(str(value)))


def code(value: object) -> Markup:
    return Markup(f"<code>{escape(str(value))}</code>")


def joined(*pieces: Markup) -> Markup:
    return Markup("".join(pieces))


def element(kind: str, inside: Markup, css: str = "") -> Markup:
    return Markup(f'<{kind} class="{css}">{inside}</{kind}>' if css else f"<{kind}>{inside}</{kind}>")


def figure(where: str, value: float | int | None, shown: str | None = None) -> Markup:
    """A number of the result, at the place that it has there, so that a program finds it: `funnel.pack.returned`."""
    if value is None:
        return Markup("–")
    return Markup(f'<data id="{escape(where)}" value="{value!r}">{escape(number(value) if shown is None else shown)}</data>')


def number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def pairs(values: Mapping[str, Any]) -> Markup:
    return text(", ".join(f"{name} {number(value)}" for name, value in values.items()))


def flag(fine: bool, said: str) -> Markup:
    """A word with its mark, so that it does not stand on its colour alone."""
    return Markup(f'<span class="{"ok" if fine else "bad"}">{"✓" if fine else "✗"} {escape(said)}</span>')


def section(name: str, title: str, said: str, *pieces: Markup) -> Markup:
    """A part of the page under its own heading, or nothing when it has no pieces."""
    if not any(pieces):
        return Markup("")
    lead = f'<p class="soft">{escape(said)}</p>' if said else ""
    return Markup(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>{lead}{"".join(pieces)}</section>'
    )


def card(*pieces: Markup) -> Markup:
    return Markup(f'<div class="card">{"".join(pieces)}</div>')


def folded(summary: str, *pieces: Markup) -> Markup:
    return Markup(f"<details><summary>{escape(summary)}</summary>{''.join(pieces)}</details>")


def table(caption: str, columns: Columns, rows: Iterable[Sequence[Cell]], *, quiet: bool = False) -> Markup:
    """A table whose cells are HTML already. Each names its column, for on a narrow screen every row becomes a list; `quiet` keeps the
    caption for who cannot see that the heading above says the same."""
    kinds = list(columns.items())
    head = "".join(f'<th scope="col" role="columnheader" class="{kind}">{escape(name)}</th>' for name, kind in kinds)
    body = "".join(f'<tr role="row">{"".join(_cells(kinds, row))}</tr>' for row in rows)
    return Markup(
        f'<table role="table"><caption class="{"quiet" if quiet else ""}">{escape(caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table>'
    )


def _cells(kinds: Sequence[tuple[str, str]], row: Sequence[Cell]) -> Iterable[str]:
    for place, ((name, kind), cell) in enumerate(zip(kinds, row, strict=True)):
        label = f' data-label="{escape(name)}"' if name else ""
        if place == 0:
            yield f'<th scope="row" role="rowheader" class="{kind}"{label}>{cell}</th>'
        else:
            yield f'<td role="cell" class="{kind}"{label}>{cell or "–"}</td>'
