"""`remit eval` measures what is found, says what was lost and what leaked, and compares runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faces.running import Remit

ME = {"actor": "me", "org": "local", "scopes": ["project:tower"]}
MEMORIES = [
    {"source": "fact", "id": "lamp", "text": "The oil lamp is lit at dusk."},
    {"source": "fact", "id": "keeper", "text": "Mara keeps the lighthouse.", "scope": "project:tower"},
    {"source": "fact", "id": "rival", "org": "other", "text": "Clandestine trawlers pass at midnight."},
]


def gold(query: str, *relevant: str, **more: Any) -> dict[str, Any]:
    return {"query": query, "principal": ME, "asOf": "2027-01-01", "relevant": list(relevant), "name": query, **more}


GOLD = [
    gold("when is the lamp lit?", "fact:lamp", outcome="enough", half="decide"),
    gold("who keeps the lighthouse?", "fact:keeper", "fact:lamp", needs=["fact:keeper"], half="report"),
    gold("clandestine trawlers", outcome="nothing_found", mustNot=["fact:rival"], half="report"),
]


@pytest.fixture
def eval_(remit: Remit, tmp_path: Path) -> Remit:
    (tmp_path / "memories.jsonl").write_text("".join(json.dumps(each) + "\n" for each in MEMORIES))
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(each) + "\n" for each in GOLD))
    return lambda *more, stdin="": remit("eval", "gold.jsonl", *more, stdin=stdin)


def test_a_result_has_the_measures_the_exposure_what_was_lost_and_the_time(eval_: Remit) -> None:
    told = eval_("--memories", "memories.jsonl", "--json")
    result = told.json

    assert told.status == 0
    assert result["measures"]["freshValidRecall"] == result["measures"]["packedCoverage"] == 0.75
    assert (result["measures"]["answerSupport"], result["measures"]["outcomeAccuracy"]) == (1.0, 1.0)
    assert set(result["exposure"].values()) == {0}
    assert [(each["id"], each["stage"], each["reason"]) for each in result["lost"]] == [("fact:lamp", "generate", "no_common_word")]
    assert result["lost"][0]["budget"]["items"] == 500
    assert result["latency"]["count"] == 3
    assert result["route"]["routes"]["lexical"] == {"ran": 3}
    assert result["latency"]["byReadable"].keys() == {"≤     100"}
    assert result["work"]["candidates"]["generate"]["count"] == 3
    assert result["work"]["checks"]["verdicts"] == {"fresh": 2}
    assert {scan["within"] for plan in result["plans"] for scan in plan["scans"]} == {"index", "key"}


def test_the_hosts_own_store_is_asked_when_no_other_is_named(eval_: Remit, remit: Remit) -> None:
    remit("add", "memories.jsonl", "--principal", json.dumps({**ME, "scopes": "*"}))
    assert eval_("--json").json["measures"]["candidateRecall"] == 0.75


def test_a_person_sees_a_table_and_what_was_lost(eval_: Remit) -> None:
    told = eval_("--memories", "memories.jsonl", "--mutations")

    assert (told.status, told.err) == (0, "")
    for word in ("nDCG@10", "0.750", "exposed: nothing, at 8 boundaries", "fact:lamp", "no_common_word"):
        assert word in told.out
    assert told.out.count("\nholds ") == 5
    assert "within the org that asks" in told.out


def test_mutations_change_a_copy_in_the_store_that_is_named(eval_: Remit, new_other_store: Callable[[], str]) -> None:
    copy = new_other_store()
    found = eval_("--memories", "memories.jsonl", "--mutations", "--copy", copy, "--json")
    again = eval_("--memories", "memories.jsonl", "--mutations", "--copy", copy, "--json")

    kind = "sqlite" if copy.startswith("sqlite") else "postgres"
    assert [(each["holds"], each["store"]) for each in found.json["mutations"]] == [(True, kind)] * 5
    assert (found.status, again.status, again.json["error"]["field"]) == (0, 2, "copy")


def test_a_half_and_a_k_can_be_chosen(eval_: Remit) -> None:
    told = eval_("--memories", "memories.jsonl", "--half", "report", "--k", "1", "--json").json
    assert (told["cases"], told["k"]) == (2, 1)
    assert "copy: is what --mutations change" in eval_("--copy", "sqlite:copy.db").err
    assert (eval_("--half", "none").status, eval_("--k", "0").status) == (2, 2)


def test_two_runs_are_compared_and_the_report_is_one_page(eval_: Remit, tmp_path: Path) -> None:
    (tmp_path / "before.json").write_text(eval_("--memories", "memories.jsonl", "--json").out)
    told = eval_("--memories", "memories.jsonl", "--against", "before.json", "--html", "report.html", "--json").json
    page = (tmp_path / "report.html").read_text()

    assert told["compared"]["packedCoverage"]["difference"] == 0.0
    assert "What moved" in page
    assert "Recall against budget" in page
    assert page.endswith("</html>\n")


@pytest.mark.parametrize(
    "arguments, line",
    [
        (("--against", "gold.jsonl"), "against: "),
        (("--html", "nowhere/report.html"), "html: 'nowhere/report.html' cannot be written"),
        (("--memories", "none.jsonl"), "memories: 'none.jsonl' cannot be read"),
        (("--memories", "gold.jsonl"), "gold.jsonl:1: source: is missing"),
    ],
)
def test_what_is_wrong_is_one_line(eval_: Remit, arguments: tuple[str, str], line: str) -> None:
    more = ("--memories", "memories.jsonl") if "--against" in arguments else ()
    told = eval_(*more, *arguments)
    assert (told.status, told.out) == (2, "")
    assert line in told.err
    assert told.err.count("\n") == 1


WRONG: list[tuple[Any, str]] = [
    ({"measures": {"precision": "high"}}, "is not the result of an evaluation"),
    ({"measures": {"precision": float("nan")}}, "is not the result of an evaluation"),
    ({"measures": {"precision": 7}}, "is not the result of an evaluation"),
    ({"measures": None}, "is not the result of an evaluation"),
    ({"query": "another question"}, "no case of 'before.json' has the name and the question of one here"),
    ({"name": "another name"}, "no case of 'before.json' has the name and the question of one here"),
]


@pytest.mark.parametrize("change, fact", WRONG)
def test_a_run_that_says_nothing_of_this_one_is_refused_before_a_store_is_opened(
    remit: Remit, tmp_path: Path, change: dict[str, Any], fact: str
) -> None:
    asked = {"name": GOLD[0]["name"], "query": GOLD[0]["query"], "measures": {"precision": 1.0}}
    (tmp_path / "gold.jsonl").write_text(json.dumps(GOLD[0]) + "\n")
    (tmp_path / "before.json").write_text(json.dumps({"k": 10, "each": [{**asked, **change}]}))
    told = remit("eval", "gold.jsonl", "--against", "before.json", "--store", "sqlite:nowhere.db", "--json")
    assert (told.status, told.json["error"]["field"]) == (2, "against")
    assert fact in told.json["error"]["message"]


def test_a_run_at_another_k_is_refused_and_only_what_asks_the_same_is_compared(eval_: Remit, tmp_path: Path) -> None:
    before = eval_("--memories", "memories.jsonl", "--json").json
    before["each"][0]["query"] = "asked otherwise then"
    (tmp_path / "before.json").write_text(json.dumps(before))
    other = eval_("--memories", "memories.jsonl", "--against", "before.json", "--k", "1")
    told = eval_("--memories", "memories.jsonl", "--against", "before.json")

    assert other.status == 2
    assert "--k 10 makes them alike" in other.err
    assert "compared: 2 of 3 cases" in told.out


def test_an_evaluation_leaves_no_receipts(eval_: Remit, tmp_path: Path) -> None:
    (tmp_path / "kept.toml").write_text(f'[receipts]\nfile = "{tmp_path}/receipts.jsonl"\n')
    told = eval_("--memories", "memories.jsonl", "--mutations", "--config", "kept.toml", "--json")

    assert (told.status, {each["holds"] for each in told.json["mutations"]}) == (0, {True})
    assert not (tmp_path / "receipts.jsonl").exists()


def test_mutations_copy_all_where_the_store_keeps_the_grants(remit: Remit, tmp_path: Path) -> None:
    for name, lines in (("memories.jsonl", MEMORIES), ("gold.jsonl", GOLD)):
        (tmp_path / name).write_text("".join(json.dumps(each) + "\n" for each in lines))
    (tmp_path / "kept.toml").write_text('[authority]\ngrants = "store"\n')
    remit("add", "memories.jsonl", "--principal", json.dumps({**ME, "scopes": "*"}))
    remit("grant", "me", "project:tower")
    told = remit("eval", "gold.jsonl", "--config", "kept.toml", "--mutations", "--json").json
    apart = remit("eval", "gold.jsonl", "--config", "kept.toml", "--memories", "memories.jsonl", "--json").json

    assert [each["holds"] for each in told["mutations"]] == [True] * 5
    assert told["measures"]["packedCoverage"] == apart["measures"]["packedCoverage"] == 0.75


def test_a_person_is_told_of_curves_and_of_outcomes_nobody_expected(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "memories.jsonl").write_text(json.dumps(MEMORIES[0], ensure_ascii=False).replace("dusk", "dusk\u2028") + "\n")
    (tmp_path / "gold.jsonl").write_text(json.dumps(gold("lamp", "fact:gone", outcome="nothing_found", mustNot=["fact:lamp"])) + "\n")
    told = remit("eval", "gold.jsonl", "--memories", "memories.jsonl", "--curves")

    for line in (
        "another outcome than expected: lamp (enough for nothing_found)",
        "returned what must not be: lamp (fact:lamp)",
        "recall by cards of the answer: 1 0.000",
    ):
        assert line in told.out


def test_a_line_that_is_not_utf_8_is_named(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(json.dumps(GOLD[0]).encode() + b'\n{"query": "\xff"}\n')
    told = remit("eval", "bad.jsonl", "--json")
    assert (told.status, told.json["error"]["field"]) == (2, "bad.jsonl:2")


def test_a_bad_gold_line_is_named_before_anything_is_asked(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text(json.dumps(GOLD[0]) + "\n" + json.dumps({**GOLD[1], "relevant": ["lamp"]}) + "\n")
    told = remit("eval", "bad.jsonl", "--json")
    assert (told.status, told.json["error"]["field"]) == (2, "bad.jsonl:2: relevant[0]")


def test_a_leak_or_a_broken_property_is_no_success() -> None:
    from remit.pipeline.faces.evaluating import sound

    assert sound({"exposure": {"logs": 0}, "mutations": [{"holds": True}]})
    assert not sound({"exposure": {"logs": 1}})
    assert not sound({"exposure": {"logs": 0}, "mutations": [{"holds": False}]})
