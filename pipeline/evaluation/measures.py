"""Measures: pure figures over ids and numbers, each between 0 and 1 unless its name has a unit."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from math import ceil, log2
from statistics import fmean

MEASURES = (
    "candidateRecall",
    "freshValidRecall",
    "packedCoverage",
    "answerSupport",
    "authorizedRecall@k",
    "nDCG@k",
    "precision",
    "outcomeAccuracy",
)
"""The four that are kept apart, and those beside them."""

PERCENTILES = (50, 90, 95, 99)


def part(wanted: Collection[str], found: Collection[str]) -> float | None:
    """The part of what is wanted that was found; None when nothing is wanted, for then it is no question of recall."""
    return len(set(wanted) & set(found)) / len(set(wanted)) if wanted else None


def gain(found: Sequence[str], relevant: Collection[str], k: int) -> float | None:
    """nDCG@k with binary relevance: 1 when every relevant id comes first; None when nothing is relevant. Järvelin and Kekäläinen 2002."""
    if not relevant:
        return None
    got = sum(1 / log2(place + 2) for place, name in enumerate(found[:k]) if name in relevant)
    best = sum(1 / log2(place + 2) for place in range(min(k, len(set(relevant)))))
    return got / best


def precision(found: Collection[str], relevant: Collection[str], related: Collection[str]) -> float:
    """The part of what was returned that is relevant, what is merely related left aside. Nothing returned is nothing wrong: 1."""
    right, wrong = right_and_wrong(found, relevant, related)
    return right / (right + wrong) if right + wrong else 1.0


def right_and_wrong(found: Collection[str], relevant: Collection[str], related: Collection[str]) -> tuple[int, int]:
    """How many of the ids returned are relevant, and how many are neither that nor related."""
    ids = set(found)
    return len(ids & set(relevant)), len(ids - set(relevant) - set(related))


def mean_of(values: Collection[float | None]) -> float | None:
    """The mean of those that are there; None when none is."""
    there = [value for value in values if value is not None]
    return fmean(there) if there else None


def percentile(values: Sequence[float], wanted: float) -> float:
    """The smallest value that at least `wanted` percent of the values do not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * wanted / 100) - 1)] if ordered else 0.0


def distribution(values: Sequence[float]) -> dict[str, float]:
    """Count, mean, percentiles and largest of some numbers, in their own unit."""
    told = {f"p{wanted}": percentile(values, wanted) for wanted in PERCENTILES}
    return {"count": len(values), "mean": fmean(values) if values else 0.0, **told, "max": max(values, default=0.0)}


def interval(differences: Sequence[float], *, resamples: int, seed: int, within: float = 0.95) -> tuple[float, float]:
    """Where the mean of these paired differences lies, by percentiles of seeded bootstrap resamples. Efron 1979."""
    if not differences:
        return 0.0, 0.0
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    means = [fmean(chance.choices(differences, k=len(differences))) for _ in range(resamples)]
    tail = (1 - within) / 2 * 100
    return percentile(means, tail), percentile(means, 100 - tail)


def moved(
    before: Mapping[str, Mapping[str, float | None]], after: Mapping[str, Mapping[str, float | None]], *, resamples: int, seed: int
) -> dict[str, dict[str, float | int | bool | list[str]]]:
    """Measure → what two runs over the same cases differ by: both means, the mean difference with its interval, and the cases that
    rose and fell. `clear` says that the interval does not hold 0. Cases that only one run has are left out."""
    told: dict[str, dict[str, float | int | bool | list[str]]] = {}
    for measure in MEASURES:
        pairs = {
            name: (old, new)
            for name in before.keys() & after.keys()
            if (old := before[name].get(measure)) is not None and (new := after[name].get(measure)) is not None
        }
        if not pairs:
            continue
        differences = [new - old for _, (old, new) in sorted(pairs.items())]
        low, high = interval(differences, resamples=resamples, seed=seed)
        told[measure] = {
            "before": fmean(old for old, _ in pairs.values()),
            "after": fmean(new for _, new in pairs.values()),
            "difference": fmean(differences),
            "low": low,
            "high": high,
            "clear": low > 0 or high < 0,
            "cases": len(pairs),
            "rose": sorted(name for name, (old, new) in pairs.items() if new > old),
            "fell": sorted(name for name, (old, new) in pairs.items() if new < old),
        }
    return told
