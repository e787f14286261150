"""Drawing: the pictures of a report as inline SVG, made of numbers and escaped text and nothing else. Each says in words what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import floor, log10

from remit.pipeline.evaluation.markup import Markup

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340, 200, 34, 22, 20, 38
BINS = 12


def bar(share: float) -> Markup:
    """A horizontal bar for a share 0…1, in the colour of how good it is. The number stands beside it."""
    kind = "good" if share >= 0.9 else "fair" if share >= 0.6 else "poor"
    track, filled = '<rect class="track" width="100" height="6"/>', f'<rect class="{kind}" width="{100 * share:.1f}" height="6"/>'
    return Markup(f'<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">{track}{filled}</svg>')


def curve(points: Sequence[Sequence[float]], label: str) -> Markup:
    """Recall against a budget on a logarithmic scale, every point marked with its value. The scale of recall begins where the curve
    does, in tenths, and says so."""
    if not points:
        return Markup("")
    first, last = log10(max(1, points[0][0])), log10(max(1, points[-1][0]))
    across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    lowest = max(0, floor(10 * min(recall for _, recall in points) - 0.5)) / 10
    places = [
        (
            LEFT + across * ((log10(max(1, budget)) - first) / ((last - first) or 1)),
            TOP + up * (1 - recall) / (1 - lowest),
            budget,
            recall,
        )
        for budget, recall in points
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in places)
    marks = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4"><title>{budget:g}: {recall:.3f}</title></circle>'
        f'<text class="value" x="{x + 5:.1f}" y="{y + 15:.1f}" text-anchor="middle">{recall:.2f}</text>'
        f'<text class="tick" x="{x:.1f}" y="{TOP + up + 15}" text-anchor="middle">{budget:g}</text>'
        for x, y, budget, recall in places
    )
    axis = f'<text class="axis" x="{LEFT + across / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">{escape(label)}</text>'
    told = f"Recall by {label}: " + ", ".join(f"{budget:g} {recall:.3f}" for budget, recall in points)
    return _picture(HEIGHT, told, f'{_grid(up, lowest)}<polyline points="{line}"/>{marks}{axis}')


def _grid(up: int, lowest: float) -> str:
    return "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{TOP + up * (1 - part):.1f}" y2="{TOP + up * (1 - part):.1f}"/>'
        f'<text class="tick" x="{LEFT - 7}" y="{TOP + 4 + up * (1 - part):.1f}" text-anchor="end">{lowest + (1 - lowest) * part:.3g}</text>'
        for part in (0, 0.5, 1)
    )


def histogram(values: Sequence[float], unit: str) -> Markup:
    """How often values of each size occur, in bins that grow by the same factor each."""
    if not values:
        return Markup("")
    low, high = max(min(values), 0.01), max(*values, 0.011)
    factor = (high / low) ** (1 / BINS) or 1.0
    edges = [low * factor ** (place + 1) for place in range(BINS)]
    counts = [0] * BINS
    for value in values:
        counts[next((place for place, edge in enumerate(edges) if value <= edge * 1.000001), BINS - 1)] += 1
    most, wide = max(counts), (WIDTH - 20) / BINS
    binned = enumerate(zip(edges, counts, strict=True))
    bars = "".join(_bin(10 + place * wide, wide - 3, count, most, edge, unit) for place, (edge, count) in binned)
    axis = (
        f'<text class="axis" x="{WIDTH / 2}" y="167" text-anchor="middle">{escape(unit)} of a recall, and how many took up to that</text>'
    )
    return _picture(172, f"{len(values)} recalls, from {min(values):.3g} to {max(values):.3g} {unit}", bars + axis)


def _bin(x: float, wide: float, count: int, most: int, edge: float, unit: str) -> str:
    top, middle = 18 + 116 * (1 - count / most), x + wide / 2
    told = f'<text class="value" x="{middle:.1f}" y="{top - 4:.1f}" text-anchor="middle">{count}</text>' if count else ""
    return (
        f'<rect class="kept" x="{x:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{134 - top:.1f}">'
        f"<title>up to {edge:.3g} {escape(unit)}: {count}</title></rect>{told}"
        f'<text class="tick" x="{middle:.1f}" y="149" text-anchor="middle">{edge:.2g}</text>'
    )


def interval(low: float, difference: float, high: float, most: float) -> Markup:
    """Where a mean difference lies, on a line whose middle is no difference and whose ends are `most` away from it."""
    left, at, right = (100 + 96 * value / (most or 1.0) for value in (low, difference, high))
    kind = "good" if low > 0 else "poor" if high < 0 else "even"
    return Markup(
        '<svg class="interval" viewBox="0 0 200 16" aria-hidden="true"><line class="grid" x1="4" x2="196" y1="8" y2="8"/>'
        f'<line class="grid" x1="100" x2="100" y1="1" y2="15"/><line class="{kind}" x1="{left:.1f}" x2="{right:.1f}" y1="8" y2="8"/>'
        f'<circle class="{kind}" cx="{at:.1f}" cy="8" r="4"/></svg>'
    )


def _picture(height: int, told: str, inside: str) -> Markup:
    return Markup(f'<svg class="picture" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(told)}">{inside}</svg>')
