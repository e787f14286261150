"""A gold line is read whole or refused by file, line and field."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from evaluation.worlds import checked

from remit.pipeline import Principal
from remit.pipeline.config import load
from remit.pipeline.errors import InvalidRequest
from remit.pipeline.evaluation.gold import Case, cases_from
from remit.pipeline.faces.wire import request_from
from remit.pipeline.outcome import Outcome

LINE = {
    "query": "who owns the crane?",
    "principal": {"actor": "ada", "org": "acme", "scopes": ["project:alpha"]},
    "asOf": "2026-11-30T12:00:00Z",
    "relevant": ["doc:d1"],
}


def read(lines: Iterable[str]) -> list[Case]:
    return cases_from(lines, file="gold.jsonl", request_from=request_from, check=checked, limits=load().limits)


def line(**changes: Any) -> str:
    return json.dumps({key: value for key, value in {**LINE, **changes}.items() if value != "gone"})


def test_a_line_says_who_asks_what_at_which_time_and_what_should_be_found() -> None:
    (case,) = read([line()])
    assert (case.name, case.query, case.relevant, case.needs) == ("1", "who owns the crane?", ("doc:d1",), ("doc:d1",))
    assert case.principal == Principal(actor="ada", org="acme", scopes=("project:alpha",))
    assert case.request.as_of == "2026-11-30T12:00:00Z"


def test_what_more_a_line_may_say() -> None:
    more = {"needs": [], "outcome": "exhausted", "request": {"limit": 1, "profile": "answer"}, "name": "one", "half": "decide"}
    (case,) = read(["", line(**more, mustNot=["fact:a", "fact:a"], related=["fact:b"])])
    assert (case.name, case.half, case.needs, case.outcome) == ("one", "decide", (), Outcome.EXHAUSTED)
    assert (case.request.limit, case.request.profile) == (1, "answer")
    assert (case.must_not, case.related) == (("fact:a",), ("fact:b",))


@pytest.mark.parametrize(
    "wrong, where",
    [
        ("{", "line"),
        ("[]", "line"),
        (line(colour="red"), "colour"),
        (line(query="gone"), "query"),
        (line(query=" "), "query"),
        (line(asOf="yesterday"), "asOf"),
        (line(relevant="doc:d1"), "relevant"),
        (line(relevant=["doc"]), "relevant[0]"),
        (line(needs=["note:1"]), "needs[0]"),
        (line(mustNot=["doc:d1"]), "mustNot"),
        (line(needs=["doc:d2"], mustNot=["doc:d2"]), "mustNot"),
        (line(mustNot=["doc:d2"], related=["doc:d2"]), "related"),
        (line(request={"continuation": "abc"}), "request.continuation"),
        (line(outcome="fine"), "outcome"),
        (line(principal={"actor": "ada"}), "principal.org"),
        (line(principal={**LINE["principal"], "scopes": ["club:x"]}), "principal.scopes[0]"),  # type: ignore[dict-item]
        (line(request={"limit": 0}), "request.limit"),
        (line(request={"colour": 1}), "request.colour"),
        (line(request={"asOf": "2026-01-01"}), "request.asOf"),
        (line(name="1"), "name"),
    ],
)
def test_a_wrong_line_is_refused_by_file_line_and_field(wrong: str, where: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read([line(), wrong])
    assert refused.value.field == f"gold.jsonl:2: {where}"
    assert str(refused.value).count(f"{where}: ") == 1


def test_half_a_character_in_a_question_is_asked_as_the_engine_asks_it() -> None:
    (case,) = read([line(query="who owns \ud800 the crane?")])
    assert case.query == "who owns \ufffd the crane?"


def test_a_file_without_a_case_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"gold\.jsonl: holds no case"):
        read(["", "\n"])
