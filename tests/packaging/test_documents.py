"""The documents: every setting has its reason, every word its row in the runbook, and nothing is told that is not so."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints
from urllib.parse import unquote

import pytest
import typer
from pydantic.alias_generators import to_camel

from remit.pipeline import backfill, calling, intake, outcome, replaying, why
from remit.pipeline.config import Config, load
from remit.pipeline.embedding import batch, streams
from remit.pipeline.faces import failing
from remit.pipeline.faces.cli import app
from remit.pipeline.storage import entry, store
from remit.pipeline.storage.postgres import checking as postgres_checking
from remit.pipeline.storage.postgres import nearest
from remit.pipeline.storage.sqlite import checking
from remit.stages import ceiling, report

ROOT = Path(__file__).parents[2]
PARTS = [ROOT / name for name in ("stages", "pipeline", "ops", "tests")]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(path for part in PARTS for path in part.rglob("*.md"))])
SHIPPED = sorted(path for part in PARTS[:2] for path in part.rglob("*.py"))

README = (ROOT / "README.md").read_text()
RUNBOOK = (ROOT / "ops" / "runbook.md").read_text()
CONFIG = (ROOT / "config.toml").read_text()
DECISIONS = ROOT / "ops" / "decisions"


# Settings


def test_every_setting_says_why_it_has_its_value() -> None:
    assert list(settings_without_reason(CONFIG)) == []


def test_a_setting_without_a_reason_is_seen() -> None:
    assert list(settings_without_reason('[a.b]\nc = 1\nd = 2  # two\ne = "#3"\nf = [\n]\n')) == ["a.b.c", "a.b.e", "a.b.f"]


def test_the_settings_are_the_ones_the_code_knows() -> None:
    profiles = load().recall.profiles

    assert set(settings_of(tomllib.loads(CONFIG))) == set(settings_known(Config, entries={"recall.profiles": tuple(profiles)}))


def settings_without_reason(text: str) -> Iterator[str]:
    section = ""
    for line in text.splitlines():
        if named := re.match(r"\[([\w.]+)\]", line):
            section = named[1]
        elif (stated := re.match(r"(\w+)\s*=", line)) and not re.search(r"#\s*\S", re.sub(r'"[^"]*"', "", line)):
            yield f"{section}.{stated[1]}"


def settings_of(table: Mapping[str, Any], within: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from settings_of(value, f"{within}{key}.")
        else:
            yield f"{within}{key}"


def settings_known(kind: Any, *, entries: Mapping[str, Collection[str]], within: str = "") -> Iterator[str]:
    """The dotted names of a dataclass's fields as TOML has them; `entries` names the keys of those that are tables of any key."""
    hints = get_type_hints(kind)
    for each in fields(kind):
        name, hint = f"{within}{to_camel(each.name)}", hints[each.name]
        if is_dataclass(hint):
            yield from settings_known(hint, entries=entries, within=f"{name}.")
        elif get_origin(hint) is dict:
            for key in entries.get(name, ()):
                yield from settings_known(get_args(hint)[1], entries=entries, within=f"{name}.{key}.")
        else:
            yield name


# Words of the runbook


def given_to(name: str) -> set[str]:
    """The values of `code=` wherever this class is made in shipped code; those that are not written out stand in `SPELLED_ELSEWHERE`."""
    found: set[str] = set()
    for path in SHIPPED:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                code = next((each.value for each in node.keywords if each.arg == "code"), None)
                if isinstance(code, ast.Constant):
                    found.add(str(code.value))
                elif code is not None:  # another class of that name has none
                    found |= SPELLED_ELSEWHERE[path.relative_to(ROOT).as_posix()]
    return found


SPELLED_ELSEWHERE = {
    "pipeline/storage/sqlite/checking.py": set(checking._DISAGREEMENTS),
    "pipeline/storage/postgres/checking.py": {*postgres_checking._DISAGREEMENTS, *postgres_checking._OF_VECTORS},
}


def constants(module: ModuleType, kind: type) -> set[str]:
    """The public constants of a module that are of this kind."""
    return {str(value) for name, value in vars(module).items() if name.isupper() and type(value) is kind and not name.startswith("_")}


def values(kind: type[StrEnum]) -> set[str]:
    return {each.value for each in kind}


def stage_outcomes() -> set[str]:
    """What a stage report's `outcome` is ever set to: the texts given to that name where reports are kept."""
    found: set[str] = set()
    for name in ("trail.py", "recall.py"):
        for node in ast.walk(ast.parse((ROOT / "pipeline" / name).read_text())):
            if isinstance(node, ast.Assign | ast.AnnAssign) and "outcome" in names_given_by(node):
                found |= texts(node.value)
    return found


def names_given_by(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    parts = [each for target in targets for each in ast.walk(target)]
    return {each.attr for each in parts if isinstance(each, ast.Attribute)} | {each.id for each in parts if isinstance(each, ast.Name)}


def texts(node: ast.AST | None) -> set[str]:
    return {each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)} if node else set()


WORDS = {
    "Outcomes": values(outcome.Outcome),
    "Codes": values(outcome.Code),
    "Owners": values(outcome.Owner),
    "Stage outcomes": stage_outcomes(),
    "Limits": values(ceiling.Limit),
    "Reasons": values(report.Reason),
    "Degradations": values(report.Degradation),
    "Stream states": values(streams.State),
    "Steps of a backfill": values(backfill.Step),
    "Provider faults": values(calling.CallFault),
    "Unsound answers": values(batch.Unsound),
    "Routes": constants(store, str) | constants(nearest, str) | {"sqlite_vec_not_loaded"},
    "Why": constants(why, str),
    "Verdicts of a replay": values(replaying.Verdict),
    "Drifts": values(replaying.Drift),
    "Since then": values(replaying.Around),
    "Not checkable": values(replaying.Uncheckable),
    "Refusals": values(entry.Refusal),
    "Passed by": values(intake.Skip),
    "Faults": given_to("Fault"),
    "Errors": given_to("Failure"),
    "Exit statuses": constants(failing, int),
}


@pytest.mark.parametrize("heading", WORDS)
def test_the_runbook_explains_every_word_once_and_no_other(heading: str) -> None:
    assert sorted(explained(RUNBOOK, heading)) == sorted(WORDS[heading])


@pytest.mark.parametrize("heading", WORDS)
def test_the_runbook_leaves_no_cell_empty(heading: str) -> None:
    assert [row for row in rows(section(RUNBOOK, heading)) if not all(row)] == []


def test_a_word_is_read_from_its_own_table_only() -> None:
    text = "### One\n| word | means |\n|---|---|\n| `a` | not `b` |\n\n### Two\n| word | means |\n|---|---|\n| `c` | |\n"

    assert (explained(text, "One"), explained(text, "Two")) == (["a"], ["c"])


def explained(text: str, heading: str) -> list[str]:
    return [word for row in rows(section(text, heading)) for word in re.findall(r"^`([^`]+)`$", row[0])]


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no heading {heading!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of a section's first table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


# The command line


COMMANDS: Mapping[str, Any] = vars(typer.main.get_command(app))["commands"]
OPTIONS = {option for command in (typer.main.get_command(app), *COMMANDS.values()) for each in command.params for option in each.opts}
MENTIONED = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
CALLED = re.compile(r"(?:`|^|\$ |&& )remit (?:--\w+ \S+ )?([a-z]+)", re.MULTILINE)
OF_OTHERS = {"--help", "--upgrade"}
"""Options of the documents that our commands do not declare: what Typer adds by itself, and what goes to other programs."""


def test_every_command_is_in_the_readme_and_every_option_in_the_runbook() -> None:
    told = set(CALLED.findall(README)), set(MENTIONED.findall(RUNBOOK))

    assert (COMMANDS.keys() - told[0], {option for option in OPTIONS if option.startswith("--")} - told[1]) == (set(), set())


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "ops/runbook.md"])
def test_no_command_or_option_is_told_of_that_there_is_not(name: str) -> None:
    text = (ROOT / name).read_text()

    assert set(CALLED.findall(text)) - COMMANDS.keys() == set()
    assert set(MENTIONED.findall(text)) - OPTIONS - OF_OTHERS == set()


def test_every_environment_variable_is_in_the_runbook() -> None:
    read = {name for path in SHIPPED for name in re.findall(r'"(REMIT_[A-Z_]+)"', path.read_text())}

    assert read
    assert {name for name in read if f"`${name}`" not in RUNBOOK} == set()


# The readme


EXAMPLE = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0]
START = "anyio.run(main)\n"


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.splitlines()) <= 15


async def test_the_example_finds_what_it_took_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the loop this test runs on; as it stands it starts one of its own, in the test below."""
    assert EXAMPLE.endswith(START)
    (tmp_path / "example.py").write_text(EXAMPLE.removesuffix(START))

    await runpy.run_path(str(tmp_path / "example.py"))["main"]()

    assert capsys.readouterr().out.startswith("enough ['day'")


def test_the_example_runs_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(EXAMPLE)

    ran = subprocess.run([sys.executable, "-P", "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("enough ['day'")


def test_the_tree_names_only_what_is_there() -> None:
    named = list(tree(section(README, "The house")))

    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def tree(text: str) -> Iterator[str]:
    """The paths of a tree: two blanks a level, names up to a gap of two blanks, several on a line where they are alike."""
    above: list[str] = []
    for line in re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0].splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.split(r"\s{2,}", line.strip())[0].split()
        above[depth:] = [names[0]] if names[0].endswith("/") else []
        yield from ("".join(above[:depth]) + name for name in names)


# Decisions and links


def test_every_decision_is_listed_once_in_order() -> None:
    listed = re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", (DECISIONS / "README.md").read_text())

    assert listed == sorted(path.name for path in DECISIONS.glob("[0-9]*.md"))
    assert [name[:4] for name in listed] == [f"{number:04}" for number in range(1, len(listed) + 1)]


@pytest.mark.parametrize("path", sorted(DECISIONS.glob("[0-9]*.md")), ids=lambda path: path.stem)
def test_a_decision_says_its_context_choice_reason_and_price(path: Path) -> None:
    text = path.read_text()

    assert re.match(rf"# {int(path.name[:4])}\. \S", text)
    assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Why", "Price"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert list(broken_links(path)) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n[itself](#a-page) [no heading](#b) [file](page.md) [none](other.md) `[code](x.md)` [web](https://x.test/y)\n"
    )

    assert list(broken_links(page)) == ["#b", "other.md"]


def broken_links(path: Path) -> Iterator[str]:
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z][a-z+.-]*:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def anchors(path: Path) -> set[str]:
    """Headings as they are linked to: lower case, words and hyphens."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
