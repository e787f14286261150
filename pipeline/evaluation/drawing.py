"""Drawing: the pictures of a report as inline SVG, made of numbers and escaped text and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10, sqrt

WIDTH, HEIGHT, LEFT, BOTTOM = 340, 190, 40, 34


def bar(share: float) -> str:
    """A horizontal bar for a share 0…1, in the colour of how good it is."""
    kind = "good" if share >= 0.9 else "fair" if share >= 0.6 else "poor"
    return '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none"><rect class="track" width="100" height="6" rx="3"/>' + (
        f'<rect class="{kind}" width="{100 * share:.1f}" height="6" rx="3"/></svg>'
    )


def funnel(stages: Sequence[Mapping[str, object]]) -> str:
    """What came into each stage and what went on, as bars that narrow: widths go by square roots, the paler part was let go."""
    counts = [(str(each["stage"]), _whole(each["received"]), _whole(each["returned"])) for each in stages]
    most = sqrt(max((received for _, received, _ in counts), default=0)) or 1.0
    rows = []
    for place, (name, received, returned) in enumerate(counts):
        top, whole, kept = place * 46, 520 * sqrt(received) / most, 520 * sqrt(returned) / most
        rows.append(
            f'<text x="0" y="{top + 25}" class="name">{escape(name)}</text>'
            f'<rect class="gone" x="{90 + (520 - whole) / 2:.1f}" y="{top + 6}" width="{whole:.1f}" height="28" rx="4"/>'
            f'<rect class="kept" x="{90 + (520 - kept) / 2:.1f}" y="{top + 6}" width="{kept:.1f}" height="28" rx="4"/>'
            f'<text x="630" y="{top + 25}">{received:,} → {returned:,}</text>'
        )
    return f'<svg class="funnel" viewBox="0 0 760 {46 * len(counts)}" role="img">{"".join(rows)}</svg>'


def curve(points: Sequence[Sequence[float]], label: str) -> str:
    """Recall against a budget on a logarithmic scale, every point marked with its value."""
    if not points:
        return ""
    first, last = log10(max(1, points[0][0])), log10(max(1, points[-1][0]))
    across, up = WIDTH - LEFT - 14, HEIGHT - BOTTOM - 16
    places = [
        (LEFT + across * ((log10(max(1, budget)) - first) / ((last - first) or 1)), 16 + up * (1 - recall), budget, recall)
        for budget, recall in points
    ]
    grid = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 14}" y1="{16 + up * (1 - level):.1f}" y2="{16 + up * (1 - level):.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{20 + up * (1 - level):.1f}" text-anchor="end">{level:g}</text>'
        for level in (0, 0.25, 0.5, 0.75, 1)
    )
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in places)
    marks = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2"><title>{budget:g}: {recall:.3f}</title></circle>'
        f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{budget:g}</text>'
        for x, y, budget, recall in places
    )
    axis = f'<text class="axis" x="{LEFT + across / 2:.0f}" y="{HEIGHT - 2}" text-anchor="middle">{escape(label)}</text>'
    return f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{grid}<polyline points="{line}"/>{marks}{axis}</svg>'


def histogram(values: Sequence[float], unit: str) -> str:
    """How often values of each size occur, in bins that grow by half each."""
    if not values:
        return ""
    edges = [min(values) or 0.01]
    while edges[-1] < max(values):
        edges.append(edges[-1] * 1.5)
    counts = [sum(low < value <= high for value in values) for low, high in zip([0.0, *edges], edges, strict=False)]
    most, wide = max(counts), (WIDTH - 20) / len(counts)
    bars = "".join(
        f'<rect class="kept" x="{10 + place * wide:.1f}" y="{16 + 120 * (1 - count / most):.1f}" width="{max(1.0, wide - 3):.1f}" '
        f'height="{120 * count / most:.1f}" rx="2"><title>up to {edge:.1f} {escape(unit)}: {count}</title></rect>'
        f'<text class="tick" x="{10 + (place + 0.5) * wide:.1f}" y="150" text-anchor="middle">{edge:.1f}</text>'
        for place, (edge, count) in enumerate(zip(edges, counts, strict=True))
    )
    axis = f'<text class="axis" x="{WIDTH / 2}" y="167" text-anchor="middle">{escape(unit)}</text>'
    return f'<svg class="curve" viewBox="0 0 {WIDTH} 170" role="img">{bars}{axis}</svg>'


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
