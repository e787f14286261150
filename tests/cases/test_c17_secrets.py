"""C17 and B7.3: a secret in every foreign row, question, parameter and address, and a search for it in all that anybody is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import structlog
from faults.broken import Broken, over
from hearing import every_span
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from stories.world import ADA, NewStore, engine_at

from remit.pipeline import Claim, ContextWanted, Doc, Engine, Fact, Memory, Origin, Principal, Request, Session, TagFilter
from remit.pipeline.errors import RemitError

FOREIGN, HIDDEN, LOGIN, ASKED = "zqforeign7731", "zqhidden7731", "zqpassword7731", "zqasked7731"
TELLTALE = f"postgresql://root:{LOGIN}@10.0.0.7/acme: DETAIL: Key (id)=({FOREIGN}) {HIDDEN} SELECT {ASKED}"


def laden(secret: str, **stated: Any) -> list[Fact | Session | Doc]:
    """A memory of each kind with the secret in every field that has room for one."""
    common: dict[str, Any] = {
        "text": f"the harbour crane {secret}",
        "title": f"crane {secret}",
        "tags": (f"t{secret}",),
        "aliases": (f"alias {secret}",),
        "claims": (Claim(about=f"crane {secret}", says=secret),),
        "origin": Origin(uri=f"crm:{secret}", version=secret),
        "key": f"k{secret}",
        **stated,
    }
    kinds = (Fact, Session, Doc)
    return [kind(id=f"{kind.__name__}{secret}", **{**common, "key": f"{kind.__name__}{secret}"}) for kind in kinds]


OWN = [Fact(id="own", text="the harbour crane opens", origin=Origin(uri="crm:own")), Fact(id="other", text="the harbour crane closes")]
WORLD = [*OWN, *laden(FOREIGN, org="rival"), *laden(HIDDEN, scope="project:beta")]

QUESTION = Request(
    query=f"harbuor crane {ASKED}",
    project=f"p{ASKED}",
    tags=TagFilter(none=(f"t{ASKED}",)),
    questions=(f"which crane {ASKED}",),
    context=ContextWanted(format="xml"),
)


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    yield from every_span()


async def raising(*_: Any) -> Any:
    raise ConnectionError(TELLTALE)


class Failing:
    """An authority that fails for whoever asks but the one who writes."""

    async def resolve(self, principal: Principal) -> Principal:
        if principal.actor != "writer":
            raise ConnectionError(TELLTALE)
        return principal


async def answers(call: Callable[[], Awaitable[Any]]) -> str:
    """What a call gives, or the text of what it raises, with all that the error carries."""
    try:
        answer = await call()
    except RemitError as error:
        return f"{error!r} {error} {error.__cause__ and type(error.__cause__)} {error.__notes__ if hasattr(error, '__notes__') else ''}"
    return json.dumps(answer.wire(), default=str) if hasattr(answer, "wire") else repr(answer)


def calls(engine: Engine) -> list[Callable[[], Awaitable[Any]]]:
    names = [*(f"fact:Fact{secret}" for secret in (FOREIGN, HIDDEN)), "fact:own", "fact:nowhere"]
    return [
        lambda: engine.recall(QUESTION, ADA),
        lambda: engine.recall(Request(query="harbour crane"), ADA),
        lambda: engine.recall(Request(query="crane", scopes=("project:beta",)), ADA),
        lambda: engine.brief(ADA),
        lambda: engine.doctor(),
        *((lambda name=name: engine.why(QUESTION, name, ADA)) for name in names[2:]),
        *((lambda name=name: engine.history(name, ADA)) for name in names),
        *((lambda name=name: engine.approve([name], ADA)) for name in names[3:]),
    ]


FAULTS: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "nothing wrong": ({}, lambda store: store),
    "a check that raises": ({"checkers": {"crm": raising}}, lambda store: store),
    "a counter that raises": ({"counter": raising}, lambda store: store),
    "an authority that raises": ({"authority": Failing()}, lambda store: store),
    **{
        f"a store that raises at {method}": ({}, lambda store, method=method: Broken(store, {method: OSError(TELLTALE)}))
        for method in ("find", "outlines", "vocabulary", "read")
    },
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_b7_3_no_secret_of_another_is_told_anywhere_and_nothing_that_was_asked_is_recorded(
    new_other_store: NewStore,
    fault: str,
    exporter: InMemorySpanExporter,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    parts, broken = FAULTS[fault]
    logged: list[Any] = []
    async with engine_at(new_other_store(), *WORLD, **parts) as engine:
        exporter.clear()
        structlog.configure(processors=[lambda _logger, _name, event: logged.append(dict(event)) or ""])
        try:
            with caplog.at_level(logging.DEBUG):
                told = [await answers(call) for call in calls(over(engine, broken))]
        finally:
            structlog.reset_defaults()

    spans = "".join(span.to_json() for span in exporter.get_finished_spans())
    recorded = spans + caplog.text + repr(logged) + "".join(capfd.readouterr())
    assert len(spans) > 1000
    assert "remit.outcome" in repr(logged)
    for secret in (FOREIGN, HIDDEN, LOGIN, ASKED, "DETAIL"):
        assert secret not in recorded
    own_names = [each.replace(f"Fact{FOREIGN}", "").replace(f"Fact{HIDDEN}", "") for each in told]  # the caller said these itself
    for secret in (FOREIGN, HIDDEN, LOGIN, "DETAIL"):
        assert [each for each in own_names if secret in each] == []


async def test_a_check_that_is_told_of_a_memory_is_told_of_readable_ones_only(new_store: NewStore) -> None:
    seen: list[str] = []

    async def check(memory: Memory, _access: object) -> bool:
        seen.append(repr(memory))
        return True

    async with engine_at(new_store(), *WORLD, checkers={"crm": check}) as engine:
        await engine.recall(Request(query=f"harbour crane {FOREIGN} {HIDDEN}"), ADA)

    assert len(seen) == 1
    assert FOREIGN not in seen[0]
    assert HIDDEN not in seen[0]
