"""Runs the benchmarks: `python3 ops/dev bench [NAME…] [--data FOLDER] [--out FILE]`; without a name, all that need no data."""

from __future__ import annotations

import argparse
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from against_peers import against_peers
from figures import machine, show
from kill import killing
from long_import import long_import
from loop_gap import largest_gaps
from minilm import against_the_bare_loop
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from postgres_recall import against_hand_written_sql, curves
from profiling import profiles
from quality import SETS, quality
from sqlite_recall import against_foreign_rows, against_sql_by_hand
from writing import against_bare_writes

Rows = list[dict[str, Any]]

BENCHMARKS: dict[str, tuple[str, Callable[[Path], Awaitable[Rows]]]] = {
    "recall": ("A whole recall on SQLite, ms (500 own of 100,000 rows, 200 orgs, limit 20, spans on)", against_sql_by_hand),
    "postgres": (
        "A whole recall on Postgres, ms (500 own of 100,000 rows, 200 orgs, limit 20, row security, spans on)",
        against_hand_written_sql,
    ),
    "curves": ("Recalls on Postgres as rows grow, ms; a quarter of an hour when its databases are to be made", curves),
    "foreign": ("Foreign rows on SQLite, ms", against_foreign_rows),
    "minilm": ("128 texts through MiniLM, ms", against_the_bare_loop),
    "peers": ("Remit and its peers, ms (100,000 rows of 200 tenants, top 20 inside one; 128 dimensions; three rounds)", against_peers),
    "peers768": ("The same at 768 dimensions", partial(against_peers, dimensions=768)),
    "profile": ("Where the time of a recall goes, ms (500 own of 100,000 rows, limit 20, spans on)", profiles),
    "writing": ("Taking in, facts a second and ms", against_bare_writes),
    "import": ("A million lines taken in; some minutes", long_import),
    "kill": ("Writers killed, crowded and locked out; a few minutes", killing),
    "loop": ("The longest the event loop was held, ms", largest_gaps),
}


class Discarded(SpanExporter):
    """Spans are made, batched and handed over, as in production, and then thrown away."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS if all(isinstance(each, ReadableSpan) for each in spans) else SpanExportResult.FAILURE


async def run(names: list[str], folder: Path, data: Path | None) -> dict[str, Rows]:
    folder.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in names:
        title, benchmark = BENCHMARKS[name]
        results[name] = await benchmark(folder)
        show(title, results[name])
    if data is not None:
        results["quality"] = await quality(data, folder)
        show("Quality of whole recalls: recall@20 and nDCG@10, beside what was measured before", results["quality"])
    return results


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, checked as far as can be before anything is made: a benchmark may take an hour."""
    told = "\n".join(f"  {name:<10}{title}" for name, (title, _) in BENCHMARKS.items())
    parser = argparse.ArgumentParser(description=__doc__, epilog=told, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which of those below; all when none is named")
    parser.add_argument("--data", type=Path, help="folder of public collections, for the quality figures")
    parser.add_argument("--folder", type=Path, default=Path(".dev/benchmarks"), help="where stores are made and kept")
    parser.add_argument("--out", type=Path, help="file for the results as JSON")
    arguments = parser.parse_args(given)
    if wrong := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {', '.join(wrong)}; there are {', '.join(BENCHMARKS)}")
    if arguments.data and (absent := [each for each in SETS if not (arguments.data / each / "corpus.jsonl").is_file()]):
        parser.error(f"--data {arguments.data}: has no corpus.jsonl in {', '.join(absent)}")
    if arguments.out and not arguments.out.absolute().parent.is_dir():
        parser.error(f"--out {arguments.out}: its folder is not there")
    return arguments


def main() -> None:
    arguments = arguments_of()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Discarded()))
    trace.set_tracer_provider(provider)
    names = arguments.names or ([] if arguments.data else list(BENCHMARKS))
    results = anyio.run(run, names, arguments.folder, arguments.data)
    if arguments.out:
        arguments.out.write_text(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
