"""Refusing to read where rows could get past their policies; in the control of each case a foreign row does appear. C2.1, B1.14."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import psycopg
import pytest
from conformance.worlds import EVERYTHING, SIGNATURE, memory, seen_from, wanting
from databases import APP, OWNER, Stock, login, template_with_store
from psycopg import sql
from servers import Postgres

from remit.pipeline.authority import Principal
from remit.pipeline.config import load
from remit.pipeline.errors import UnsafeStorage
from remit.pipeline.starting import open_engine
from remit.pipeline.storage.postgres import made, open_postgres
from remit.stages.request import Request

pytestmark = pytest.mark.anyio

SETTINGS = load().postgres
BAD = "remit_bad"
STRONG = "remit_strong"


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """How to make a database unsafe, what the refusal says, and which query shows a foreign row then, asked as `asking`."""

    breaking: str
    told: str
    asking: str = BAD
    showing: str = "SELECT org FROM remit.memory"


COPIED = f"AS SELECT * FROM remit.memory; GRANT SELECT ON ALL TABLES IN SCHEMA remit TO {APP}"  # noqa: S608 - all of it stands here
GIVEN = f"GRANT {APP} TO {BAD}; GRANT {BAD} TO {OWNER};"

ROLES = {
    "superuser": Hazard(breaking=f"CREATE ROLE {BAD} SUPERUSER; {GIVEN}", told="remit_bad is a superuser"),
    "bypassing row security": Hazard(breaking=f"CREATE ROLE {BAD} BYPASSRLS; {GIVEN}", told="remit_bad is allowed to bypass"),
    "owner of tables that are not forced": Hazard(
        breaking=f"CREATE ROLE {BAD}; {GIVEN} ALTER TABLE remit.memory OWNER TO {BAD}, NO FORCE ROW LEVEL SECURITY",
        told="remit_bad is the owner",
    ),
    "inheriting from a role that bypasses row security": Hazard(
        breaking=f"CREATE ROLE {STRONG} BYPASSRLS; CREATE ROLE {BAD}; {GIVEN} GRANT {APP} TO {STRONG}; GRANT {STRONG} TO {BAD}",
        told="remit_bad is a member of remit_strong",
        asking=STRONG,
    ),
    "able to become a role that bypasses row security": Hazard(
        breaking=f"CREATE ROLE {STRONG} BYPASSRLS; CREATE ROLE {BAD} NOINHERIT; {GIVEN} GRANT {APP} TO {STRONG}; GRANT {STRONG} TO {BAD}",
        told="remit_bad is a member of remit_strong",
        asking=STRONG,
    ),
    "able to become a superuser": Hazard(
        breaking=f"CREATE ROLE {STRONG} SUPERUSER; CREATE ROLE {BAD} NOINHERIT; {GIVEN} GRANT {STRONG} TO {BAD}",
        told="remit_bad is a member of remit_strong",
        asking=STRONG,
    ),
    "able to make roles": Hazard(
        breaking=f"CREATE ROLE {BAD} CREATEROLE; {GIVEN} CREATE ROLE {STRONG} BYPASSRLS; GRANT {APP} TO {STRONG}",
        told="remit_bad is allowed to make roles",
        asking=STRONG,
    ),
}

CATALOGUES = {
    "a table without row security": Hazard(
        breaking="ALTER TABLE remit.posting DISABLE ROW LEVEL SECURITY",
        told="not forced on posting",
        asking=APP,
        showing="SELECT org FROM remit.posting",
    ),
    "a table that is not forced": Hazard(
        breaking="ALTER TABLE remit.memory NO FORCE ROW LEVEL SECURITY", told="not forced on memory", asking=OWNER
    ),
    "another permissive policy": Hazard(
        breaking="CREATE POLICY wide ON remit.memory FOR SELECT USING (true)", told="policies of memory are not those", asking=APP
    ),
    "a policy that was widened": Hazard(
        breaking="ALTER POLICY own ON remit.memory USING (true)", told="policies of memory are not those", asking=APP
    ),
    "a policy with a way around it": Hazard(
        breaking="DO $$ BEGIN EXECUTE (SELECT format('ALTER POLICY own ON remit.passage USING ((%s) OR length > 0)', qual) "
        "FROM pg_policies WHERE tablename = 'passage'); END $$",
        told="policies of passage are not those",
        asking=APP,
        showing="SELECT org FROM remit.passage",
    ),
    "a view that reads as its owner": Hazard(
        breaking=f"CREATE VIEW remit.everything {COPIED}",
        told="everything shows rows past",
        asking=APP,
        showing="SELECT org FROM remit.everything",
    ),
    "a copy of rows": Hazard(
        breaking=f"CREATE MATERIALIZED VIEW remit.copied {COPIED}",
        told="copied shows rows past",
        asking=APP,
        showing="SELECT org FROM remit.copied",
    ),
    "a table that nobody made": Hazard(
        breaking=f"CREATE TABLE remit.spare {COPIED}",
        told="not forced on spare",
        asking=APP,
        showing="SELECT org FROM remit.spare",
    ),
    "a function with its owner's rights": Hazard(
        breaking="CREATE FUNCTION remit.all_orgs() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER AS 'SELECT org FROM remit.memory'",
        told="function all_orgs runs with the rights",
        asking=APP,
        showing="SELECT remit.all_orgs()",
    ),
    "a stranger's function in place of one of ours": Hazard(
        breaking="GRANT CREATE ON SCHEMA public TO PUBLIC; "
        "CREATE FUNCTION public.as_other(text, bigint) RETURNS text LANGUAGE sql AS $$ SELECT set_config('app.org', 'other', true) $$; "
        "CREATE OPERATOR public.|| (LEFTARG = text, RIGHTARG = bigint, FUNCTION = public.as_other)",
        told="everybody may make functions in the schema public",
        asking=APP,
        showing="SELECT org FROM (SELECT 'ours'::text || 1::bigint OFFSET 0) AS s(said) CROSS JOIN LATERAL (SELECT org FROM remit.memory "
        "WHERE said IS NOT NULL OFFSET 0) AS m",
    ),
}


@pytest.fixture
def database(postgres_server: Postgres) -> Iterator[str]:
    """The superuser's DSN of a store of its own, whose roles and catalogue may be spoiled."""
    with postgres_server.clone(template_with_store(postgres_server, SIGNATURE)) as dsn:
        try:
            yield dsn
        finally:
            _let_go_of_roles(dsn)


def _let_go_of_roles(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for role in (BAD, STRONG):
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                gone = sql.SQL("REASSIGN OWNED BY {0} TO {1}; DROP OWNED BY {0}; DROP ROLE {0}")
                connection.execute(gone.format(sql.Identifier(role), sql.Identifier(OWNER)))


def _do(dsn: str, statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statements.encode())


def foreign_rows(dsn: str, hazard: Hazard) -> int:
    """How many rows of another org the query shows to who acts for acme."""
    with psycopg.connect(dsn) as connection:
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(hazard.asking)))
        connection.execute("SET LOCAL app.org = 'acme'")
        connection.execute("SET LOCAL app.scopes = '*'")
        return sum(org != "acme" for (org,) in connection.execute(hazard.showing.encode()).fetchall())


async def fill(dsn: str) -> None:
    async with await open_postgres(login(dsn, OWNER), SETTINGS, SIGNATURE) as store:
        await store.put([memory("ours", "red", degrees=0)], EVERYTHING)
        await store.put([memory("theirs", "red", degrees=0, org="other")], seen_from("other", None))


def role_of(hazard: Hazard) -> str:
    return BAD if BAD in hazard.breaking else APP


@pytest.mark.parametrize("name", [*ROLES, *CATALOGUES])
async def test_what_would_show_foreign_rows_is_refused_at_the_start(database: str, name: str) -> None:
    hazard = (ROLES | CATALOGUES)[name]
    await fill(database)
    assert foreign_rows(database, replace(hazard, asking=APP, showing="SELECT org FROM remit.memory")) == 0
    _do(database, hazard.breaking)

    with pytest.raises(UnsafeStorage) as refused:
        await open_postgres(login(database, OWNER), replace(SETTINGS, role=role_of(hazard)), SIGNATURE)

    assert hazard.told in refused.value.fact
    assert foreign_rows(database, hazard) >= 1, "without the refusal it would have been shown"


@pytest.mark.parametrize("name", CATALOGUES)
async def test_what_would_show_foreign_rows_is_refused_when_it_comes_while_running(database: str, name: str) -> None:
    await fill(database)
    async with await open_postgres(login(database, OWNER), replace(SETTINGS, safety_seconds=0), SIGNATURE) as store:
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1
        _do(database, CATALOGUES[name].breaking)

        for question in (
            store.find(wanting("red"), EVERYTHING),
            store.outlines([1], EVERYTHING),
            store.put([memory("more", "red")], EVERYTHING),
            store.granted("ada", "acme"),
        ):
            with pytest.raises(UnsafeStorage):
                await question
        assert [fault.code for fault in await store.faults()] == ["unsafe_storage"]


@pytest.mark.parametrize(
    "spoiling, told",
    [
        (f"ALTER ROLE {BAD} SUPERUSER", "is a superuser"),
        (f"ALTER ROLE {BAD} BYPASSRLS", "allowed to bypass"),
        (f"ALTER ROLE {BAD} LOGIN", "may log in"),
        (f"ALTER ROLE {BAD} CREATEROLE", "allowed to make roles"),
        (f"ALTER TABLE remit.memory OWNER TO {BAD}", "is the owner of tables"),
        (f"CREATE ROLE {STRONG} SUPERUSER; ALTER ROLE {BAD} NOINHERIT; GRANT {STRONG} TO {BAD}", "is a member of remit_strong"),
        (f"CREATE ROLE {STRONG} BYPASSRLS; GRANT {STRONG} TO {BAD}", "is a member of remit_strong"),
        (f"GRANT pg_read_all_data TO {BAD}", "is a member of pg_read_all_data"),
        (f"GRANT {OWNER} TO {BAD}", f"is a member of {OWNER}"),
    ],
)
async def test_power_that_the_role_is_given_while_running_is_noticed(database: str, spoiling: str, told: str) -> None:
    _do(database, f"CREATE ROLE {BAD}; GRANT {APP} TO {BAD}")
    async with await open_postgres(database, replace(SETTINGS, role=BAD, safety_seconds=0), SIGNATURE) as store:
        await store.find(wanting("red"), EVERYTHING)
        _do(database, spoiling)

        with pytest.raises(UnsafeStorage, match=told):
            await store.find(wanting("red"), EVERYTHING)


@pytest.mark.parametrize("command", ["SELECT", "INSERT", "UPDATE", "DELETE"])
async def test_a_policy_that_is_missing_for_a_command_is_refused(database: str, command: str) -> None:
    """It shows nobody anything, but it is not what `remit init` made, and writes or reads would go wrong one by one."""
    others = [each for each in ("SELECT", "INSERT", "UPDATE", "DELETE") if each != command]
    same = "org = nullif(current_setting('app.org', true), '')"
    made_of = [f"CREATE POLICY p{each} ON remit.tag FOR {each} {'WITH CHECK' if each == 'INSERT' else 'USING'} ({same})" for each in others]
    async with await open_postgres(login(database, OWNER), replace(SETTINGS, safety_seconds=0), SIGNATURE) as store:
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 0
        _do(database, "; ".join(["DROP POLICY own ON remit.tag", *made_of]))

        with pytest.raises(UnsafeStorage, match="policies of tag"):
            await store.find(wanting("red"), EVERYTHING)
    with pytest.raises(UnsafeStorage, match="policies of tag"):
        await open_postgres(login(database, OWNER), SETTINGS, SIGNATURE)


async def test_a_new_connection_looks_anew_however_short_ago_another_one_looked(database: str) -> None:
    settings = replace(SETTINGS, connections=1, safety_seconds=3600.0)
    async with await open_postgres(login(database, OWNER), settings, SIGNATURE) as store:
        await store.find(wanting("red"), EVERYTHING)
        _do(database, CATALOGUES["another permissive policy"].breaking)
        await store.find(wanting("red"), EVERYTHING)  # the control: this connection does not look again within the hour
        _do(database, f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '{OWNER}'")  # noqa: S608 - our own name

        with pytest.raises(UnsafeStorage, match="policies of memory"):
            await store.find(wanting("red"), EVERYTHING)


async def test_what_a_stranger_once_left_beside_the_extension_is_refused_too(database: str) -> None:
    _do(database, f"CREATE ROLE {BAD}; GRANT CREATE ON SCHEMA public TO {BAD}")
    with pytest.raises(UnsafeStorage, match=f"the role {BAD} may make functions in the schema public"):
        await open_postgres(login(database, OWNER), SETTINGS, SIGNATURE)
    _do(database, f"SET ROLE {BAD}; CREATE OPERATOR public.<+> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = int8pl)")
    _do(database, f"REVOKE CREATE ON SCHEMA public FROM {BAD}")
    with pytest.raises(UnsafeStorage, match=f"the operator <[+]> of the role {BAD} is in the schema public"):
        await open_postgres(login(database, OWNER), SETTINGS, SIGNATURE)
    _do(
        database, "DROP OPERATOR public.<+> (bigint, bigint); CREATE FUNCTION public.left_there() RETURNS bigint LANGUAGE sql AS 'SELECT 1'"
    )
    await (await open_postgres(login(database, OWNER), SETTINGS, SIGNATURE)).close()
    _do(database, f"ALTER FUNCTION public.left_there OWNER TO {BAD}")

    with pytest.raises(UnsafeStorage, match=f"the function left_there of the role {BAD} is in the schema public"):
        await open_postgres(login(database, OWNER), SETTINGS, SIGNATURE)


async def test_a_function_of_a_stranger_cannot_hide_that_it_is_there(database: str) -> None:
    silencing = (
        "GRANT CREATE ON SCHEMA public TO PUBLIC; "
        "CREATE FUNCTION public.nothing(json, text) RETURNS json LANGUAGE sql AS 'SELECT NULL::json'; "
        "CREATE AGGREGATE public.json_agg(text) (SFUNC = public.nothing, STYPE = json)"
    )
    async with await open_postgres(login(database, OWNER), replace(SETTINGS, safety_seconds=0), SIGNATURE) as store:
        await store.find(wanting("red"), EVERYTHING)
        _do(database, silencing)

        with pytest.raises(UnsafeStorage, match="everybody may make functions"):
            await store.find(wanting("red"), EVERYTHING)


async def test_a_change_is_noticed_within_five_seconds_on_every_connection() -> None:
    assert SETTINGS.safety_seconds + SETTINGS.statement_seconds <= 5


async def test_the_role_of_a_cluster_may_log_in_and_is_the_one_that_does(database: str) -> None:
    _do(database, f"CREATE ROLE {BAD} LOGIN; GRANT {APP} TO {BAD}")
    await fill(database)

    async with await open_postgres(login(database, BAD), replace(SETTINGS, role=BAD, profile="cluster"), SIGNATURE) as store:
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1
    with pytest.raises(UnsafeStorage, match="may log in"):
        await open_postgres(database, replace(SETTINGS, role=BAD), SIGNATURE)
    with pytest.raises(UnsafeStorage, match="superuser"):
        await open_postgres(database, replace(SETTINGS, profile="cluster"), SIGNATURE)


async def test_what_was_spoiled_is_mended_by_making_the_store_again(database: str) -> None:
    await fill(database)
    _do(database, CATALOGUES["a policy that was widened"].breaking)
    _do(database, CATALOGUES["a table that is not forced"].breaking)

    await made(login(database, OWNER), SETTINGS, SIGNATURE, semantic_dimensions=768)

    async with await open_postgres(login(database, OWNER), SETTINGS, SIGNATURE) as store:
        assert (await store.find(wanting("red"), EVERYTHING)).passages == 1


async def test_a_recall_on_unsafe_storage_is_an_outcome_that_says_so(stock_of_english: Stock) -> None:
    with stock_of_english.database() as dsn:
        async with open_engine(login(dsn, OWNER), config={"postgres": {"safetySeconds": 0}}) as engine:
            _do(dsn, CATALOGUES["another permissive policy"].breaking)
            answer = await engine.recall(Request(query="red"), Principal(actor="ada", org="acme"))
        _do(dsn, "DROP POLICY wide ON remit.memory")

    assert answer.outcome == "unavailable"
    assert [(each.code, each.retryable) for each in answer.meta.because] == [("unsafe_storage", False)]
