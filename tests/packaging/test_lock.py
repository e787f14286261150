"""The lock: every package pinned by hash, for every Python that Remit supports, and no address of any registry in it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_lock_names_no_address() -> None:
    assert "://" not in LOCK
    assert not re.search(r"^\s*--(?!hash=)", LOCK, re.MULTILINE)


def test_every_pin_has_a_hash() -> None:
    pins = LOCK.replace("\\\n", " ").splitlines()

    assert pins
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+", pin)] == []


def test_everything_the_project_asks_for_is_pinned() -> None:
    asked = [*SETTINGS["project"]["dependencies"], *SETTINGS["dependency-groups"]["dev"], *SETTINGS["build-system"]["requires"]]
    for extra in SETTINGS["project"]["optional-dependencies"].values():
        asked += extra
    pinned = set(re.findall(r"^([\w.-]+)==", LOCK, re.MULTILINE))

    assert {canonical(requirement) for requirement in asked} - pinned == set()


def canonical(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()
