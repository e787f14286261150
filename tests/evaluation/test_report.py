"""The report is one page that a person would rather look at: sound, self-contained, readable without colours, and its numbers are the
result's."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from evaluation.pages import Page
from evaluation.worlds import CASES, NOW, case, world

from remit.pipeline import Principal, Session
from remit.pipeline.evaluation.curves import curves
from remit.pipeline.evaluation.harness import evaluated
from remit.pipeline.evaluation.measures import moved
from remit.pipeline.evaluation.mutations import Finding
from remit.pipeline.evaluation.report import report_of
from remit.pipeline.evaluation.result import figures_of, result_of

FOUND = (
    Finding(name="control", promise="the same", holds=True, detail="holds for every case"),
    Finding(name="foreign population", promise="nothing changes", holds=False, detail="broken for 1 case", cases=("<b>one</b>",)),
)
HOSTILE = '<script>alert(1)</script> & "crane"'
PARTS = ["measures", "moved", "exposure", "mutations", "funnel", "curves", "lost", "time", "work", "route", "plans", "cases"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"


@pytest.fixture
def anyio_backend() -> str:
    """A page does not depend on the loop."""
    return "asyncio"


@pytest.fixture
async def result(tmp_path: Path) -> Mapping[str, Any]:
    async with world(f"sqlite:{tmp_path}/world.db") as engine:
        await engine.remember(
            [Session(id="s", text=f"A crane {HOSTILE} more.", created_at=NOW)], Principal(actor="host", org="acme", scopes="*")
        )
        run = await evaluated(engine, [*CASES, case(HOSTILE, "session:s", "fact:missing")], k=10)
        drawn = await curves(engine, CASES, items=[1, 10], tokens=[100])
    told = result_of(run, gold="g<o>ld.jsonl", curves=drawn, findings=FOUND)
    before = {name: {**figures, "precision": 0.0} for name, figures in figures_of(told).items()}
    return {**told, "compared": moved(before, figures_of(told), resamples=50, seed=1)}


@pytest.fixture
def text(result: Mapping[str, Any]) -> str:
    return report_of(result, result["compared"])


def at(result: Mapping[str, Any], where: str) -> Any:
    """What stands at a place of the result."""
    value: Any = result
    for name in where.split("."):
        value = value[name]
    return value


async def test_every_number_is_that_of_the_result(result: Mapping[str, Any], text: str) -> None:
    numbers = Page(text).numbers
    stages = {each["stage"]: each for each in result["funnel"]}

    assert {name: numbers[f"measures.{name}"] for name in result["measures"]} == result["measures"]
    assert {name: numbers[f"exposure.{name}"] for name in result["exposure"]} == result["exposure"]
    for name, stage in stages.items():
        assert (numbers[f"funnel.{name}.received"], numbers[f"funnel.{name}.returned"]) == (stage["received"], stage["returned"])
        assert {reason: numbers[f"funnel.{name}.rejected.{reason}"] for reason in stage["rejected"]} == stage["rejected"]
    for stage, points in result["curves"].items():
        assert [numbers[f"curves.{stage}.{budget}"] for budget, _ in points] == [recall for _, recall in points]
    for where in ("latency.p95", "tokens.mean", "work.candidates.rank.max", "work.checks.memories.mean", "compared.precision.after"):
        assert numbers[where] == at(result, where)
    assert numbers["lost.count"] == len(result["lost"])


async def test_it_has_a_part_for_everything_under_headings_that_descend(text: str) -> None:
    page = Page(text)
    parts = [each.attributes["id"] for each in page.root.all("section")]
    headings = [int(each.tag[1]) for each in _headings(page)]

    assert parts == PARTS
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(headings))
    assert {each.attributes["aria-labelledby"] for each in page.root.all("section")} <= set(page.ids)


def _headings(page: Page) -> list[Any]:
    def walk(element: Any) -> list[Any]:
        return [each for child in element.inside for each in ([child] if child.tag in ("h1", "h2", "h3") else []) + walk(child)]

    return walk(page.root)


async def test_who_sees_no_colours_or_pictures_is_told_the_same(text: str) -> None:
    page = Page(text)

    assert [table for table in page.root.all("table") if not table.all("caption") or not table.all("caption")[0].whole_text] == []
    assert [head for head in page.root.all("th") if head.attributes.get("scope") not in ("col", "row")] == []
    assert [
        picture for picture in page.root.all("svg") if not (picture.attributes.get("aria-label") or "aria-hidden" in picture.attributes)
    ] == []
    assert [mark for mark in page.root.all("span") if mark.attributes.get("class") == "bad" and not mark.whole_text.strip()] == []
    assert "✗ broken" in text
    assert "✓ holds" in text
    assert page.root.all("html")[0].attributes["lang"] == "en"


async def test_it_stands_by_itself_and_what_is_quoted_stays_text(text: str) -> None:
    page = Page(text)

    assert text.startswith("<!doctype html>")
    assert [name for name, times in page.ids.items() if times > 1] == []
    assert [tag for tag in ("script", "link", "img", "iframe", "b1") if page.root.all(tag)] == []
    assert [word for word in ("http:", "https:", "url(", "@import", "g<o>ld", "<b>one") if word in text] == []
    policy = [each.attributes["content"] for each in page.root.all("meta") if "http-equiv" in each.attributes]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert any(HOSTILE in cell.whole_text for cell in page.root.all("td"))


@pytest.mark.parametrize("width", [1280, 400])
async def test_it_is_readable_in_a_browser_where_there_is_one(text: str, width: int, tmp_path: Path) -> None:
    """The screenshot stays beside the page, and nothing sticks out of it."""
    page = tmp_path / "report.html"
    page.write_text(text, encoding="utf-8")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is not None:
        shot = tmp_path / f"report-{width}.png"
        _browse(browser, page, f"--window-size={width},2400", f"--screenshot={shot}")
        sys.stdout.write(f"the report at {width} pixels: {shot}\n")
        assert shot.read_bytes()[:4] == b"\x89PNG"
        assert int.from_bytes(shot.read_bytes()[16:20]) == width
        assert _widest(browser, text, width, tmp_path) <= width
    assert Page(page.read_text(encoding="utf-8")).root.all("main")


def _widest(browser: str, text: str, width: int, folder: Path) -> int:
    """How wide the page is when laid out in so many pixels: a browser's own window is never narrower than 500, a frame in it is."""
    frame = f'<iframe style="width:{width}px;height:2000px;border:0" srcdoc="{escape(text)}"></iframe>'
    probe = "onload=()=>{document.title=document.querySelector('iframe').contentDocument.documentElement.scrollWidth}"
    outside = folder / "framed.html"
    outside.write_text(f"<!doctype html><title></title><body>{frame}<script>{probe}</script></body>", encoding="utf-8")
    told = _browse(browser, outside, "--dump-dom")
    return int(Page(told).root.all("title")[0].whole_text)


def _browse(browser: str, page: Path, *more: str) -> str:
    with tempfile.TemporaryDirectory(prefix="remit-browser-", ignore_cleanup_errors=True) as profile:
        line = [browser, *QUIET.split(), "--disable-sync", "--hide-scrollbars", f"--user-data-dir={profile}", *more, page.as_uri()]
        return subprocess.run(line, check=True, capture_output=True, text=True, timeout=60).stdout
