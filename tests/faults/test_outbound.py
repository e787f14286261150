"""B3.5, B3.6: nothing leaves for an org that does not allow it, nor before scope and origin are known; seen at the sockets themselves."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from providers import Asked, Provider, embeddings, honest, reply, serving
from stories.world import NOW, NewStore, engine_at

from remit.pipeline import Doc, Engine, Fact, Origin, Principal, Request
from remit.pipeline.errors import AuthorityFailed, NotAuthorised
from remit.pipeline.evaluation.gold import Case
from remit.pipeline.evaluation.harness import evaluated
from remit.pipeline.faces.wire import carried_from, whole_to

ACME = Principal(actor="ada", org="acme", scopes=("project:alpha",))
GLOBEX = Principal(actor="ada", org="globex", scopes=("project:alpha",))
CONFIG: dict[str, Any] = {
    "embedding": {"provider": "openai", "openai": {"model": "toy", "dimensions": 4, "questionSeconds": 60.0, "passageSeconds": 60.0}},
    "reranking": {"provider": "remote", "model": "toy", "seconds": 60.0},
    "outbound": {"embeddingOrgs": ["acme"], "rerankingOrgs": ["acme"]},
}
QUESTION = Request(query="deploy key", profile="answer")


class Spy:
    """Every attempt to connect, send or look up a name, of whatever library."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, object]] = []
        for name in ("connect", "connect_ex", "sendto"):
            monkeypatch.setattr(socket.socket, name, self._seeing(name, getattr(socket.socket, name)))
        for name in ("getaddrinfo", "gethostbyname", "create_connection"):
            monkeypatch.setattr(socket, name, self._seeing(name, getattr(socket, name)))

    def _seeing(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            address = arguments[-1] if name in ("connect", "connect_ex", "sendto") else arguments[0]
            if not isinstance(address, str | bytes) or name == "getaddrinfo":  # a path is a socket of this machine's own: the store's
                self.seen.append((name, address))
            return real(*arguments, **options)

        return called


def answers(asked: Asked) -> bytes:
    if "rerank" not in asked.line:
        return honest(asked)
    documents = asked.json["documents"]
    return reply({"model": "toy", "results": [{"index": at, "relevance_score": 0.5} for at in range(len(documents))]})


@asynccontextmanager
async def watched(url: str, monkeypatch: pytest.MonkeyPatch, *items: Any, **options: Any) -> AsyncIterator[tuple[Engine, Spy, Provider]]:
    async with serving(answers) as provider:
        monkeypatch.setenv("REMIT_EMBEDDINGS_URL", provider.url)
        monkeypatch.setenv("REMIT_RERANKING_URL", provider.url)
        async with engine_at(url, config=CONFIG, **options) as engine:
            with monkeypatch.context() as patched:
                yield engine, Spy(patched), provider


async def remembers(engine: Engine, principal: Principal) -> None:
    await engine.remember([Fact(id="new", text="The deploy key is blue.")], principal)


async def remembers_a_stream(engine: Engine, principal: Principal) -> None:
    assert [receipt async for receipt in engine.remember_stream([Fact(id="new", text="The deploy key is blue.")], principal)]


async def imports(engine: Engine, principal: Principal) -> None:
    async with engine_at("memory:", Fact(id="carried", text="The deploy key is green.", org=principal.org)) as other:
        lines = [whole_to(whole) async for whole in other.export(principal)]
    receipts = [receipt async for receipt in engine.import_stream(map(carried_from, lines), principal)]
    assert [receipt.written for receipt in receipts] == ["stored"]


async def approves(engine: Engine, principal: Principal) -> None:
    (receipt,) = await engine.approve(["fact:idea"], principal)
    assert receipt.written == "approved"


async def embeds(engine: Engine, principal: Principal) -> None:
    assert [step async for step in engine.embed(principal)]


async def recalls(engine: Engine, principal: Principal) -> None:
    assert (await engine.recall(QUESTION, principal)).outcome == "enough"


async def explains(engine: Engine, principal: Principal) -> None:
    assert (await engine.why(QUESTION, "fact:key", principal)).reason == "returned"


async def briefs(engine: Engine, principal: Principal) -> None:
    await engine.brief(principal)


async def examines(engine: Engine, principal: Principal) -> None:
    await engine.doctor(principal)


async def evaluates(engine: Engine, principal: Principal) -> None:
    case = Case(
        name="one", request=replace(QUESTION, as_of=NOW), principal=principal, relevant=("fact:key",), needs=("fact:key",), outcome=None
    )
    await evaluated(engine, [case], k=10)


Work = Callable[[Engine, Principal], Awaitable[None]]
SENDS: dict[str, Work] = {
    "remember": remembers,
    "remember a stream": remembers_a_stream,
    "import": imports,
    "approve": approves,
    "embed": embeds,
    "recall and rerank": recalls,
    "why": explains,
    "evaluate": evaluates,
}
NEVER_SENDS: dict[str, Work] = {"brief": briefs, "doctor": examines}


async def filled(engine: Engine, principal: Principal) -> None:
    """Memories that were taken in while no route was allowed, so that there is something to embed."""
    org = principal.org
    quiet = Principal(actor="writer", org=org, scopes="*")
    facts = [Fact(id=f"f{at}", text=f"The deploy key of day {at}.") for at in range(3)]
    idea = Fact(id="idea", text="The deploy key is red.", approval="proposed")
    await engine.remember([Fact(id="key", text="The deploy key rotates."), idea, *facts], quiet)


@pytest.mark.parametrize("work", SENDS | NEVER_SENDS)
async def test_nothing_leaves_for_an_org_that_does_not_allow_it(new_store: NewStore, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(new_store(), monkeypatch) as (engine, spy, provider):
        await filled(engine, GLOBEX)
        await (SENDS | NEVER_SENDS)[work](engine, GLOBEX)

    assert (spy.seen, provider.connections) == ([], 0)


@pytest.mark.parametrize("work", SENDS)
async def test_the_spy_sees_what_leaves_for_an_org_that_allows_it(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "memory:"
    async with watched(url, monkeypatch) as (engine, spy, provider):
        with monkeypatch.context() as away:
            away.setattr(type(engine.kit.streams), "passages", lambda *_: ())
            await filled(engine, ACME)
        assert spy.seen == []
        await SENDS[work](engine, ACME)

        assert {name for name, _ in spy.seen} & {"connect", "connect_ex"}
        assert provider.asked != []


@pytest.mark.parametrize("work", NEVER_SENDS)
async def test_some_work_sends_nothing_for_anybody(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched("memory:", monkeypatch) as (engine, spy, provider):
        await filled(engine, GLOBEX)
        await NEVER_SENDS[work](engine, ACME)

    assert (spy.seen, provider.connections) == ([], 0)


class Refusing:
    """An authority that vouches for nobody, or cannot say."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def resolve(self, principal: Principal) -> Principal:
        raise self.error


@pytest.mark.parametrize("error", [NotAuthorised("nobody"), ConnectionError("away")])
@pytest.mark.parametrize("work", ["remember", "recall and rerank", "import", "embed", "why"])
async def test_nothing_leaves_before_the_scope_is_known(error: Exception, work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched("memory:", monkeypatch, authority=Refusing(error)) as (engine, spy, provider):
        with pytest.raises((NotAuthorised, AuthorityFailed, AssertionError)):  # a recall tells it as an outcome, which is not enough
            await SENDS[work](engine, ACME)

    assert (spy.seen, provider.connections) == ([], 0)


async def test_nothing_leaves_of_an_item_that_is_refused(new_store: NewStore, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [
        Fact(id="a", text="The deploy key.", scope="project:beta"),
        Fact(id="b", text="The deploy key.", org="rival"),
        Fact(id="c", text="The deploy key.", importance=7),
        Doc(id="d", text="The deploy key.", origin=Origin(uri="crm:1", project="beta")),
    ]
    async with watched(new_store(), monkeypatch) as (engine, spy, provider):
        receipts = await engine.remember(wrong, ACME)

    assert {receipt.written for receipt in receipts} == {"refused"}
    assert (spy.seen, provider.connections) == ([], 0)


async def test_nothing_leaves_of_a_question_that_is_refused_or_asks_for_what_is_not_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched("memory:", monkeypatch) as (engine, spy, provider):
        with pytest.raises(ValueError, match="limit"):
            await engine.recall(Request(query="deploy key", limit=0), ACME)
        answer = await engine.recall(Request(query="deploy key", scopes=("project:beta",)), ACME)

    assert [each.code for each in answer.meta.because] == ["unauthorised"]
    assert (spy.seen, provider.connections) == ([], 0)


async def test_an_origin_is_looked_at_before_its_text_leaves_and_once_more_before_it_is_written(
    new_store: NewStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("The deploy key, first.")

    def editing(asked: Asked) -> bytes:
        page.write_text("The deploy key, second.")
        return reply(embeddings(asked.json["input"]))

    async with serving(editing) as provider:
        monkeypatch.setenv("REMIT_EMBEDDINGS_URL", provider.url)
        monkeypatch.setenv("REMIT_RERANKING_URL", provider.url)
        async with engine_at(new_store(), config=CONFIG, clock=lambda: NOW) as engine:
            await engine.roots.add("acme", str(tmp_path))
            doc = Doc(id="d", text="The deploy key, first.", origin=Origin(uri=page.as_uri()))
            (receipt,) = await engine.remember([doc], ACME)

            assert (receipt.written, receipt.code) == ("refused", "origin_changed"), "only who looked before can tell"
            assert len(provider.asked) == 1


async def test_what_was_revoked_while_it_was_embedded_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    class Revoking:
        left = ACME

        async def resolve(self, principal: Principal) -> Principal:
            return self.left

    authority = Revoking()

    def revoking(asked: Asked) -> bytes:
        authority.left = Principal(actor="ada", org="acme", scopes=())
        return honest(asked)

    async with serving(revoking) as provider:
        monkeypatch.setenv("REMIT_EMBEDDINGS_URL", provider.url)
        monkeypatch.setenv("REMIT_RERANKING_URL", provider.url)
        async with engine_at("memory:", config=CONFIG, authority=authority) as engine:
            with anyio.fail_after(60):
                (receipt,) = await engine.remember([Fact(id="a", text="The deploy key.", scope="project:alpha")], ACME)

    assert (receipt.written, receipt.code) == ("refused", "not_authorised")
    assert len(provider.asked) == 1
