"""Without an answer from the authority nothing is read; what it refuses is said without telling what exists."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import anyio
import pytest
from faults.broken import Broken, over
from stories.world import ADA, NewStore, bytes_of, codes, engine_at, ids

from remit.pipeline import Fact, Principal, Request
from remit.pipeline.errors import AuthorityFailed, NotAuthorised, StorageUnavailable

SECRET = Fact(id="plan", text="the acquisition plan", scope="project:secret")
PUBLIC = Fact(id="note", text="the acquisition note")
UNREADABLE = {name: AssertionError("the store was asked") for name in ("find", "outlines", "vocabulary", "read", "brief", "passages_of")}


class Authority:
    """Grants what it is told to grant now, or fails."""

    def __init__(self, answer: Principal | Exception | None) -> None:
        self.answer = answer

    async def resolve(self, principal: Principal) -> Principal:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await anyio.sleep_forever()
        return self.answer or principal


@pytest.mark.parametrize(
    "fault", [ConnectionError("ldap://user:hunter2@host"), StorageUnavailable("grants"), KeyError("hunter2"), PermissionError()]
)
async def test_an_authority_that_fails_is_unavailable_and_nothing_is_asked(
    new_store: NewStore, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(ADA)
    async with engine_at(new_store(), PUBLIC, authority=AsTheWriter(authority)) as engine:
        authority.answer = fault
        with caplog.at_level(logging.DEBUG):
            answer = await over(engine, lambda store: Broken(store, UNREADABLE)).recall(Request(query="acquisition"), ADA)

    (because,) = answer.meta.because
    assert (answer.outcome, because.code, because.owner, because.retryable) == ("unavailable", "authority", "operator", True)
    assert (answer.data, answer.meta.scope_filter) == ([], {})
    assert "hunter2" not in caplog.text + bytes_of(answer)


class AsTheWriter:
    """Lets the fixture write, and asks the authority at hand for everyone else."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority

    async def resolve(self, principal: Principal) -> Principal:
        return principal if principal.actor == "writer" else await self._authority.resolve(principal)


async def test_an_authority_that_never_answers_is_given_up_at_the_requests_deadline(new_store: NewStore) -> None:
    async with engine_at(new_store(), PUBLIC, authority=AsTheWriter(Authority(None))) as engine:
        answer = await engine.recall(Request(query="acquisition", deadline_seconds=0.01), ADA)

    assert (answer.outcome, codes(answer)) == ("unavailable", ["authority"])


async def test_an_authority_that_answers_for_somebody_else_is_refused(new_store: NewStore) -> None:
    for other in (replace(ADA, org="rival"), replace(ADA, actor="root")):
        async with engine_at(new_store(), PUBLIC, authority=AsTheWriter(Authority(other))) as engine:
            with pytest.raises(NotAuthorised):
                await engine.recall(Request(query="acquisition"), ADA)


@pytest.mark.parametrize("answer", [b"ada", replace(ADA, scopes=("secret",)), replace(ADA, scopes=(7,)), replace(ADA, actor="")], ids=str)
async def test_an_answer_that_is_no_principal_is_the_authoritys_fault_and_not_the_callers(new_store: NewStore, answer: Any) -> None:
    async with engine_at(new_store(), PUBLIC, authority=AsTheWriter(Authority(answer))) as engine:
        recalled = await engine.recall(Request(query="acquisition"), ADA)
        with pytest.raises(AuthorityFailed):
            await engine.remember([PUBLIC], ADA)

    assert (recalled.outcome, codes(recalled), recalled.data) == ("unavailable", ["authority"], [])


async def test_a_grant_that_was_revoked_is_gone_at_the_next_recall(new_store: NewStore) -> None:
    authority = Authority(replace(ADA, scopes=("project:secret",)))
    async with engine_at(new_store(), SECRET, PUBLIC, authority=AsTheWriter(authority)) as engine:
        before = await engine.recall(Request(query="acquisition"), ADA)
        authority.answer = replace(ADA, scopes=())
        after = await engine.recall(Request(query="acquisition"), ADA)

    assert (sorted(ids(before)), ids(after)) == (["note", "plan"], ["note"])


@pytest.mark.parametrize(
    "request_",
    [
        Request(query="acquisition", scopes=("project:secret",)),
        Request(query="acquisition", sources=("fact",), fact_scopes=("project:secret", "person:bob")),
    ],
    ids=["scopes", "factScopes"],
)
async def test_asking_only_for_what_is_not_granted_is_told_alike_whether_it_holds_anything_or_not(
    new_store: NewStore, request_: Request
) -> None:
    told = []
    for items in ([SECRET, PUBLIC], [PUBLIC]):
        async with engine_at(new_store(), *items) as engine:
            answer = await engine.recall(request_, ADA)
        told.append(bytes_of(answer))
        assert (answer.outcome, codes(answer), answer.meta.because[0].owner) == ("unavailable", ["unauthorised"], "authority")

    assert told[0] == told[1]


async def test_a_request_that_names_granted_scopes_too_is_answered_from_those(new_store: NewStore) -> None:
    async with engine_at(new_store(), SECRET, PUBLIC) as engine:
        answer = await engine.recall(Request(query="acquisition", scopes=("project:secret", "global")), ADA)

    assert (answer.outcome, ids(answer), answer.meta.scope_filter.scopes) == ("enough", ["note"], ["global"])


async def test_a_principal_of_an_org_that_holds_nothing_is_told_what_one_of_a_missing_org_is(new_store: NewStore) -> None:
    async with engine_at(new_store(), SECRET, replace(SECRET, org="rival")) as engine:
        answers = [await engine.recall(Request(query="acquisition"), Principal(actor="eve", org=org)) for org in ("rival", "nobody")]

    told = [bytes_of(answer).replace('"rival"', '"nobody"') for answer in answers]
    assert told[0] == told[1]
    assert answers[0].outcome == "nothing_found"
