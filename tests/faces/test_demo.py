"""The demo: what it promises to show is there, the rival's secrets are not, and nothing of it stays behind."""

import re
from datetime import UTC, datetime
from pathlib import Path
from tempfile import gettempdir

import pytest
from faces.running import Remit

from remit.stages.report import StageName

HERON = ("heron", "300 crowns", "storm bonus", "doubles its fares", "insurer", "force 9")


def test_the_demo_answers_well_then_guesses_then_finds_nothing(remit: Remit) -> None:
    told = remit("demo", "--json")
    wind, pump, dough = told.json["answers"]

    assert told.status == 0
    assert [each["meta"]["outcome"] for each in (wind, pump, dough)] == ["enough", "enough", "nothing_found"]
    assert [card["id"] for card in wind["data"][:2]] == ["wind-limit", "storm-crossings.md"]
    assert wind["data"][-1]["id"] == "storm-rules-of-old"
    assert pump["data"][0]["id"] == "bilge-pump"
    assert pump["meta"]["mode"]["near"] == {"pmup": ["pump"]}
    assert dough["data"] == []


def test_the_funnel_of_the_demo_has_something_to_show_at_every_turn(remit: Remit) -> None:
    stages = {stage["stage"]: stage["rejected"] for stage in remit("demo", "--json").json["answers"][0]["meta"]["stages"]}

    assert stages["generate"].keys() >= {"weak", "expired", "superseded"}
    assert stages["dedupe"].keys() == {"duplicate"}
    assert stages["verify"] == {"changed": 1}
    assert stages["pack"].keys() == {"repeats", "passages"}


def test_the_demo_explains_what_is_missing_and_tells_alike_of_the_rivals_and_the_absent(remit: Remit) -> None:
    told = [(each["id"], each["stage"], each["reason"]) for each in remit("demo", "--json").json["why"]]

    assert told == [
        ("doc:quay-notice.md", "verify", "changed"),
        ("fact:wind-limit-before", "generate", "superseded"),
        ("fact:fares-in-a-gale", None, "not_in_scope"),
        ("fact:there-is-no-such-fact", None, "not_in_scope"),
    ]


def test_nothing_of_the_rival_or_of_an_ungranted_project_is_in_the_answers(remit: Remit) -> None:
    answers = str(remit("demo", "--json").json["answers"]).lower()

    assert not [secret for secret in HERON if secret in answers]
    assert "new-ferry" not in answers


def test_a_person_sees_the_list_the_funnel_the_context_and_the_reasons(remit: Remit) -> None:
    shown = remit("demo")
    first = shown.out.split("Who looks after")[0]

    assert (shown.status, shown.err) == (0, "")
    assert "●  1  fact:wind-limit" in first
    assert [stage for stage in StageName if re.search(rf"^{stage} +\d+ → +\d+", first, re.MULTILINE)] == list(StageName)
    assert "```\nThe Aurelia may cross to Skerry Isle up to wind force 7.\n```" in first
    assert "left out: doc:crew-briefing" in first
    assert "nothing found" in shown.out
    assert "doc:quay-notice.md no longer matches its source" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80


def test_the_demo_is_the_same_every_time(remit: Remit) -> None:
    first, second = remit("demo", "--json").json, remit("demo", "--json").json

    for told in (first, second):
        for answer in told["answers"]:
            answer["data"] = [(card["id"], card["score"], card["packed"]) for card in answer["data"]]
            answer["meta"] = [{name: stage[name] for name in ("received", "returned", "rejected")} for stage in answer["meta"]["stages"]]
    assert first == second


def test_the_demo_leaves_nothing_behind_and_looks_at_nobodys_store(remit: Remit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMIT_STORE", "sqlite:mine.db")
    before = set(Path(gettempdir()).glob("remit-demo-*"))

    assert remit("demo").status == 0
    assert list(tmp_path.iterdir()) == []
    assert set(Path(gettempdir()).glob("remit-demo-*")) <= before


def test_the_demo_goes_into_a_store_that_is_named(remit: Remit) -> None:
    in_memory = remit("demo", "--store", "memory:", "--json").json
    kept = remit("demo", "--store", "sqlite:ferry.db", "--json").json
    mira = '{"actor": "mira", "org": "tern", "scopes": []}'

    asked = remit("recall", "wind force", "--store", "sqlite:ferry.db", "--principal", mira, "--json").json

    assert [card["id"] for card in in_memory["answers"][0]["data"]] == [card["id"] for card in kept["answers"][0]["data"]]
    assert "wind-limit" in {card["id"] for card in asked["data"]}


def test_memories_of_the_demo_have_ages_not_dates(remit: Remit) -> None:
    answer = remit("demo", "--json").json["answers"][0]
    made = {card["id"]: datetime.fromisoformat(card["createdAt"]) for card in answer["data"]}

    assert (datetime.now(UTC) - made["gale-tuesday"]).days == 2
