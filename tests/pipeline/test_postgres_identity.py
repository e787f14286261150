"""On whose behalf a transaction runs: set for it alone, read back, gone afterwards, and never half of it. C2."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import psycopg
import pytest
from conformance.worlds import EVERYTHING, NOW, SIGNATURE, memory, seen_from, wanting
from databases import APP, OWNER, login
from psycopg import sql

from remit.pipeline.config import load
from remit.pipeline.errors import StorageUnavailable, UnsafeStorage
from remit.pipeline.storage.postgres import PostgresStore, open_postgres
from remit.pipeline.storage.postgres.identity import AT_ONCE, BECOMING, NOBODY, Identity
from remit.pipeline.storage.postgres.line import Answers, Line
from remit.pipeline.storage.postgres.rows import EVERY, SEPARATOR, scopes_setting, spelled, unspelled
from remit.pipeline.storage.postgres.statements import Command, plain
from remit.stages.access import Access
from remit.stages.evidence import MemoryId, PassageId
from remit.stages.request import Source

pytestmark = pytest.mark.anyio

SETTINGS = load().postgres
ORGS = ("acme", "other", "Acme", "acme ", "a'cme", 'a"cme', "a\\cme", "acme\x00", "$1", "'; RESET ROLE; --", "*", "売上")


@asynccontextmanager
async def opened(dsn: str, **changed: Any) -> AsyncIterator[PostgresStore]:
    async with await open_postgres(login(dsn, OWNER), replace(SETTINGS, **changed), SIGNATURE) as store:
        yield store


async def test_an_access_to_no_org_is_refused_and_is_not_an_empty_answer(store_database: str) -> None:
    nobody = seen_from("", None)
    async with opened(store_database) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        for question in (
            store.find(wanting("red"), nobody),
            store.outlines([1], nobody),
            store.read([PassageId(MemoryId(Source.FACT, "one"), 0)], nobody),
            store.vocabulary(1, 9, nobody),
            store.put([memory("two", "red", org="")], nobody),
            store.coverage("x", nobody),
        ):
            with pytest.raises(UnsafeStorage, match="no org"):
                await question


@pytest.mark.parametrize(
    "org, scopes", [(None, None), ("", ""), ("acme", ""), ("", "*"), ("garbage", "*"), ("acme", "{a,b}"), ("{}", "null")]
)
async def test_an_identity_that_is_none_sees_no_row_and_raises_nothing(store_database: str, org: str | None, scopes: str | None) -> None:
    async with opened(store_database) as store:
        await store.put([memory("one", "red", degrees=0)], EVERYTHING)
    with psycopg.connect(store_database) as connection:
        for used in (False, True):
            if used:
                connection.execute("SET LOCAL app.org = 'acme'")
                connection.commit()  # from now on the setting is an empty text and no longer unset
            connection.execute(f"SET LOCAL ROLE {APP}".encode())
            for name, value in (("app.org", org), ("app.scopes", scopes)):
                if value is not None:
                    connection.execute("SELECT set_config(%s, %s, true)", [name, value])
            for table in ("memory", "passage", "posting", "vocabulary", "phrase", "shelf", "vector_local"):
                assert connection.execute(sql.SQL("SELECT count(*) FROM remit.{}").format(sql.Identifier(table))).fetchone() == (0,)
            connection.rollback()


def altered(line: Line, alter: Callable[[Command], Command]) -> None:
    """Makes what is sent over a line reach the database as something else, as what loses settings on the way does."""
    whole = line.exchange

    async def losing(commands: Sequence[Command], *, until: float) -> Answers:
        return await whole([alter(each) for each in commands], until=until)

    line.exchange = losing  # type: ignore[method-assign]


def set_up_with(command: Command, **values: str) -> Command:
    """The statement that sets a transaction up at once, with other values; any other command as it is."""
    given = dict(zip(command.statement.parameters, command.values, strict=True))
    if command.statement.name != AT_ONCE:
        return command
    return command.statement.given({**given, **values})


@pytest.mark.parametrize("lost", ["org", "scopes"])
async def test_an_identity_that_does_not_reach_the_database_is_refused(store_database: str, lost: str) -> None:
    async with opened(store_database, connections=1) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        (line,) = store._desk.pool._idle
        altered(line, lambda command: set_up_with(command, **{lost: ""}))
        line.literal = lambda text: "''"  # type: ignore[method-assign]
        with pytest.raises(UnsafeStorage, match="did not reach"):
            await store.find(wanting("red"), EVERYTHING)
        with pytest.raises(UnsafeStorage, match="did not reach"):
            await store.put([memory("two", "red")], EVERYTHING)


async def test_a_role_that_was_not_taken_on_is_refused(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        (line,) = store._desk.pool._idle

        def as_another_connection(command: Command) -> Command:
            return plain("SELECT 1") if command.statement.sql.startswith(BECOMING) else set_up_with(command, role="none")

        altered(line, as_another_connection)
        with pytest.raises(UnsafeStorage, match="did not reach"):
            await store.find(wanting("red"), EVERYTHING)
        with pytest.raises(UnsafeStorage, match="did not reach"):
            await store.put([memory("two", "red")], EVERYTHING)


async def test_the_next_who_borrows_the_connection_finds_no_identity(store_database: str) -> None:
    async with opened(store_database, connections=1) as store:
        await store.find(wanting("red"), EVERYTHING)
        async with store._desk.pool.line(anyio.current_time() + 5) as line:
            shown = [plain(f"SELECT current_setting('{name}', true)") for name in ("app.org", "app.scopes", "role")]
            answers = await line.exchange(shown, until=anyio.current_time() + 5)
            assert [answers.value(place) for place in range(3)] == [b"", b"", b"none"]
            answers = await line.exchange([plain("SELECT count(*) FROM remit.memory")], until=anyio.current_time() + 5)
            assert answers.value(0) == bytes(8), "the owner sees nothing either"


async def test_nothing_is_asked_outside_the_transaction_that_has_the_identity(store_database: str) -> None:
    async with opened(store_database) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        for ending in ("ROLLBACK", "COMMIT", "SELECT 1 / 0"):
            async with store._desk.reading(Identity.of(EVERYTHING)) as transaction:
                await transaction.tried([plain(ending)])
                with pytest.raises(StorageUnavailable):
                    await transaction.ask([plain("SELECT count(*) FROM remit.memory")])


async def test_tasks_that_take_turns_each_act_for_their_own_org(store_database: str) -> None:
    async with opened(store_database, connections=2, wait_seconds=30.0) as store:
        for org in ORGS:
            await store.put([memory("one", f"of{ORGS.index(org)} red", org=org)], seen_from(org, None))

        async def asked(org: str) -> None:
            for _ in range(5):
                answer = await store.find(wanting("red", *(f"of{at}" for at in range(len(ORGS)))), seen_from(org))
                holding = {word for word, each in answer.postings.items() if each.keys.size}
                assert holding == {"red", f"of{ORGS.index(org)}"}
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            for org in ORGS:
                tasks.start_soon(asked, org)


async def test_what_another_org_already_has_is_stored_beside_it(store_database: str) -> None:
    async with opened(store_database) as store:
        for org in ("other", "acme"):
            (receipt,) = await store.put([memory("pref-1", f"of {org}", org=org, key="k")], seen_from(org))
            assert (receipt.written.value, receipt.version) == ("stored", 1)
        for org in ("other", "acme"):
            (read,) = (await store.read([PassageId(MemoryId(Source.FACT, "pref-1"), 0)], seen_from(org))).values()
            assert read.text == f"of {org}"


async def test_writes_run_under_the_same_policies(store_database: str) -> None:
    """What a statement of ours would write for another org is refused by the database, whatever the statement says."""
    async with opened(store_database) as store:
        await store.put([memory("one", "red")], EVERYTHING)
        async with store._desk.writing(Identity.of_org("other")) as transaction:
            with pytest.raises(StorageUnavailable):
                await transaction.ask(
                    [store._desk.command("add_tenant", org="acme"), store._desk.command("grant", org="acme", actor="x", scope="*")]
                )
        async with store._desk.writing(NOBODY) as transaction:
            with pytest.raises(StorageUnavailable):
                await transaction.ask([store._desk.command("grant", org="acme", actor="x", scope="*")])
        assert await store.granted("x", "acme") == []


async def test_grants_are_of_one_actor_and_one_org(store_database: str) -> None:
    async with opened(store_database) as store:
        for org in ("acme", "other"):
            await store.grant("ada", org, f"project:{org}")
            await store.grant("ada", org, f"project:{org}")
        await store.grant("eve", "acme", "*")

        assert await store.granted("ada", "acme") == ["project:acme"]
        assert await store.granted("eve", "acme") == ["*"]
        assert await store.granted("ada", "nobody's") == []
        assert (await store.revoke("ada", "acme", "project:acme"), await store.revoke("ada", "acme", "project:acme")) == (True, False)
        assert (await store.granted("ada", "acme"), await store.granted("ada", "other")) == ([], ["project:other"])


async def test_who_revokes_waits_for_writes_by_that_grant_and_for_no_others(store_database: str) -> None:
    """So that nothing is written by a grant after its revocation was acknowledged."""
    kept = replace(seen_from(granted=["project:alpha"]), kept=True)
    async with opened(store_database, write_seconds=0.3) as store:
        for actor in ("ada", "eve"):
            await store.grant(actor, "acme", "project:alpha")
        async with store._desk.writing(Identity.of(kept)) as transaction:
            await transaction.ask([plain("SELECT 1")])
            assert await store.revoke("eve", "acme", "project:alpha")
            with pytest.raises(StorageUnavailable, match="too long"):
                await store.revoke("ada", "acme", "project:alpha")
        assert await store.granted("ada", "acme") == ["project:alpha"], "it was not acknowledged, and not done"
        async with store._desk.reading(Identity.of(kept)) as transaction:
            await transaction.ask([plain("SELECT 1")])
            assert await store.revoke("ada", "acme", "project:alpha"), "who reads is not waited for"


@pytest.mark.parametrize(
    "text", ["", "plain", "\x00", "\x01", "\x02", "a\x00b\x01c\x02d", "\x01a", "\x01d00e9", "\ud83d", "é", "\U0001f98a"]
)
def test_every_text_is_spelled_so_that_postgres_can_hold_it_and_comes_back(text: str) -> None:
    assert unspelled(spelled(text)) == text
    assert "\x00" not in spelled(text)
    assert SEPARATOR not in spelled(text)
    spelled(text).encode()


def test_texts_sort_as_before_when_they_are_spelled() -> None:
    texts = sorted(["", "\x00", "\x00a", "\x01", "\x01a", "\x02", "\x03", "a", "a\x00", "a\x01", "ab"])

    assert sorted(texts, key=lambda text: spelled(text).encode()) == texts


def test_no_scope_can_pass_for_several_or_for_all() -> None:
    several = scopes_setting([f"project:a{SEPARATOR}project:b"]).split(SEPARATOR)

    assert len(several) == 2
    assert "project:b" not in several
    assert EVERY not in scopes_setting(["*"]).split("\x03") or scopes_setting(["*"]) != EVERY


async def test_a_scope_named_like_all_of_them_is_only_itself(store_database: str) -> None:
    odd = Access(actor="ada", org="acme", granted=frozenset({"*"}), as_of=NOW)
    async with opened(store_database) as store:
        await store.put([memory("one", "red", scope="project:alpha")], EVERYTHING)
        assert (await store.find(wanting("red"), odd)).passages == 0
