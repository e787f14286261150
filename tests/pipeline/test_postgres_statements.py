"""Every statement of the Postgres store, asked by everybody: whoever acts for one org is shown, and changes, nothing of another.

Three databases are compared: in `both` stand the same memories of two orgs, in `ours` those of one, in `none` nothing. What somebody is
told in `both` must be, to the byte, what they are told where the rows that they may not see are not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import psycopg
import pytest
from conformance.worlds import NOW, SIGNATURE, SPACE, memory, seen_from
from databases import APP, OWNER, login, template_with_store
from psycopg import sql
from psycopg.pq import DiagnosticField, ExecStatus
from servers import Postgres

from remit.pipeline.config import load
from remit.pipeline.errors import UnsafeStorage
from remit.pipeline.storage.entry import Entry
from remit.pipeline.storage.postgres import open_postgres, statements
from remit.pipeline.storage.postgres.statements import Statement
from remit.pipeline.storage.postgres.wire import encoded, halfvec, vector, vectors
from remit.stages.access import Approval
from remit.stages.evidence import MemoryId
from remit.stages.request import Source

SQL = statements.load(Path(statements.__file__).parent / "queries.sql")
SETTINGS = load().postgres
PART = "\x02"

HOST = {
    "set_up": "sets the transaction itself up",
    "who": "tells of the transaction itself",
    "hazards": "tells of roles and the catalogue",
    "changed_policies": "tells of policies",
    "means": "tells of the extension and its tables",
    "condition": "tells of the catalogue and of rights",
    "facts": "tells of the server and sizes",
    "numbers": "gives numbers that nobody has",
    "holder": "tells of who else is connected",
    "lock": "waits for its turn",
    "lock_shared": "waits for its turn",
    "owned": "tells of who logged in",
    "setting": "the host's own",
    "set": "the host's own",
    "applied": "the host's own",
}
"""Statements that touch no row of any org, and why they are asked all the same."""

LISTS_ORGS = {"tenants", "add_tenant", "anything_seen"}
"""Statements whose answer tells of the orgs there are, when the owner asks; of anybody else's org when nobody else does."""


def entries(org: str) -> list[Entry]:
    """The same memories in whatever org: standing, bound to a time, superseded, proposed, tagged, of every source."""
    wide = np.linspace(0.1, 1, 768, dtype=np.float32).astype(np.float16).astype(np.float32)
    first = memory("pref-1", "red fox", org=org, degrees=0, tags=("x",), key="k", pinned=True, aliases=("fox",))
    passage = first.passages[0]
    first = Entry(record=first.record, passages=(replace(passage, vectors={**passage.vectors, "wide": wide}),))
    return [
        first,
        memory(
            "pref-2", "red again", org=org, degrees=20, valid_until=NOW.replace(year=2030), supersedes=(MemoryId(Source.FACT, "pref-3"),)
        ),
        memory("s", "red talk", org=org, source=Source.SESSION, degrees=30),
        memory("d", source=Source.DOC, org=org, parts=["red one", "blue two"], degrees=[40, 50], scope="project:alpha"),
        memory("gone", "red late", org=org, degrees=10, valid_until=NOW.replace(year=2020)),
        memory("new", "red idea", org=org, approval=Approval.PROPOSED),
    ]


async def fill(dsn: str, orgs: tuple[str, ...]) -> None:
    async with await open_postgres(login(dsn, OWNER), SETTINGS, SIGNATURE) as store:
        for org in orgs:
            await store.put([memory("pref-3", "red old", org=org, degrees=5)], seen_from(org, None))
            await store.put(entries(org), seen_from(org, None))
            await store.grant("ada", org, "project:alpha")
            await store.add_root(org, "/somewhere")


@dataclass(frozen=True, kw_only=True)
class Databases:
    both: psycopg.Connection[Any]
    ours: psycopg.Connection[Any]
    none: psycopg.Connection[Any]
    dsn: str


@pytest.fixture(scope="module")
def databases(postgres_server: Postgres) -> Iterator[Databases]:
    template = template_with_store(postgres_server, SIGNATURE)
    with ExitStack() as lent:
        dsns = {name: lent.enter_context(postgres_server.clone(template)) for name in ("both", "ours", "none")}
        anyio.run(fill, dsns["both"], ("acme", "other"))
        anyio.run(fill, dsns["ours"], ("acme",))
        opened = {name: lent.enter_context(psycopg.connect(dsn)) for name, dsn in dsns.items()}
        yield Databases(**opened, dsn=dsns["both"])


@dataclass(frozen=True)
class Somebody:
    """Who asks: as which role, on whose behalf; None leaves a setting unset."""

    role: str | None
    org: str | None
    scopes: str | None


CALLERS = {
    "for acme": Somebody(APP, "acme", "*"),
    "for a part of acme": Somebody(APP, "acme", PART.join(["global", "project:alpha"])),
    "for acme as the owner": Somebody(OWNER, "acme", "*"),
}
NOBODIES = {
    "for nobody": Somebody(APP, None, None),
    "for nobody any more": Somebody(APP, "", ""),
    "for an org without scopes": Somebody(APP, "other", None),
    "for an org with empty scopes": Somebody(APP, "other", ""),
    "for an org that is made up": Somebody(APP, "' OR 1 = 1 --", "*"),
    "for nobody as the owner": Somebody(OWNER, None, None),
}


@cache
def values(connection: psycopg.Connection[Any], org: str) -> Mapping[str, Any]:
    """Something for every parameter, out of what stands in an org, so that its rows are met unless something keeps them back."""
    with connection.transaction(force_rollback=True):
        shelves, keys, memories = (
            np.array([number for (number,) in connection.execute(query, [org]).fetchall()], dtype=np.int64)
            for query in (
                "SELECT id FROM remit.shelf WHERE org = %s ORDER BY id",
                "SELECT key FROM remit.passage WHERE org = %s ORDER BY key",
                "SELECT key FROM remit.memory WHERE org = %s ORDER BY key",
            )
        )
        oids = {name: _one(connection, "SELECT %s::regtype::oid::bigint", name) for name in ("vector", "halfvec")}
    direction, one = np.array([1, 0], dtype=np.float32), np.ones(1, dtype=np.int64)
    return {
        "org": org,
        "now": int(NOW.timestamp() * 1_000_000),
        "granted": ["global", "project:alpha"],
        "sources": [str(source) for source in Source],
        "scopes": None,
        "fact_scopes": None,
        "shelves": shelves,
        "keys": keys,
        "passages": keys,
        "memories": memories,
        "words": ["red", "fox", "=fox"],
        "most": 100,
        "room": 100,
        "space": SPACE,
        "source": "fact",
        "dimensions": 2,
        "probe": vector(direction, 128),
        "farthest": 2.0,
        "eligible": keys,
        "created_from": None,
        "created_until": None,
        "all_tags": [],
        "any_tags": None,
        "none_tags": [],
        "without_sources": [],
        "without_ids": [],
        "phrases": None,
        "shortest": 1,
        "longest": 9,
        "wanted_sources": ["fact", "session", "fact"],
        "wanted_ids": ["pref-1", "s", "pref-2"],
        "ordinals": np.zeros(3, dtype=np.int64),
        "id": "pref-1",
        "pinned": True,
        "places": [place for (place,) in connection.execute("SELECT place FROM remit.shelf WHERE org = %s", [org]).fetchall()],
        "actor": "ada",
        "scope": "project:alpha",
        "path": "/somewhere",
        "digest": sha256(b"/somewhere").hexdigest(),
        "setting": "analyser",
        "value": "another",
        "number": 7,
        "may_log_in": False,
        "long_embeddings": vectors([np.ones(768, dtype=np.float32)], 768, oids["halfvec"], ">f2"),
        "embeddings": vectors([direction], 128, oids["vector"], ">f4"),
        "on_shelf": shelves[:1],
        "importance": np.zeros(1),
        "vectors": ["{}"],
        "one": one,
    }


def _one(connection: psycopg.Connection[Any], query: str, *given: Any) -> Any:
    row = connection.execute(query.encode(), given).fetchone()
    assert row is not None
    return row[0]


OTHERWISE: Mapping[int, Any] = {
    16: True,
    20: 1,
    25: "x",
    1000: np.ones(1, dtype=np.bool_),
    1009: ["x"],
    1016: np.full(1, 10**9, dtype=np.int64),
    1022: np.zeros(1),
}
"""What a parameter gets that nothing is said of, by its type: a list has one place."""

NEW = np.full(1, 10**9, dtype=np.int64)


def special(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What single statements need besides, so that they can be carried out: rows to add are one each, and new."""
    first = {key: given[key][:1] for key in ("memories", "passages", "keys")}
    here = {"on_shelf": given["shelves"][:1]}
    semantic = {"dimensions": 768, "space": "wide", "probe": halfvec(np.ones(768, dtype=np.float32), 768)}
    return {
        "receipts_of": {"actors": ["ada"], "keys": ["k"]},
        "drop_receipts": {"actors": ["ada"], "keys": ["k"]},
        "add_derived": {**here, "memories": first["memories"], "sources_of": ["fact"], "ids": ["new"]},
        "tenants": {"org": ""},
        "hidden": {**here, "wanted_sources": ["fact"], "wanted_ids": ["pref-1"]},
        "add_memories": {**here, "memories": NEW, "ids": ["brand new"], "sources_of": ["fact"]},
        "add_passages": {**here, "memories": first["memories"], "passages": NEW, "ordinals": NEW, "words": ["[]"]},
        "add_postings": {"passages": first["passages"], "words": ["new"]},
        "add_phrases": {**here, "passages": NEW},
        "add_vocabulary": {**here, "words": ["new"]},
        "add_tags": {**here, "memories": first["memories"], "tags": ["new"]},
        "add_receipts": {"keys": ["new"]},
        "add_shelves": {"on_shelf": NEW, "places": ["new"]},
        "add_local": {"passages": first["passages"], "spaces": ["new"]},
        "add_semantic": {"passages": first["passages"], "spaces": ["new"], "embeddings": given["long_embeddings"]},
        "count_on_shelves": {**here, "passages": NEW},
    }.get(name, semantic if "_semantic" in name else {})


def asked(connection: psycopg.Connection[Any], who: Somebody, statement: Statement, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """What somebody is told, or the SQLSTATE of the refusal; and all rows of the other org afterwards. Nothing of it stays."""
    with connection.transaction(force_rollback=True):
        for name, value in (("app.org", who.org), ("app.scopes", who.scopes)):
            if value is not None:
                connection.execute(sql.SQL("SET LOCAL {} = {}").format(sql.SQL(name), sql.Literal(value)))
        connection.execute("SET LOCAL search_path = pg_catalog, public, pg_temp")
        with connection.transaction():
            if who.role is not None:
                connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(who.role)))
            told = _told(connection, statement, {**given, **special(statement.name, given)})
            if isinstance(told, str):
                raise psycopg.Rollback
        connection.execute("RESET ROLE")
        return told, {} if reads(statement) else _rows_of(connection, "other")


def reads(statement: Statement) -> bool:
    """Whether it only reads, as the server itself would see to in a transaction that is read-only."""
    return not re.search(rb"\b(INSERT|UPDATE|DELETE)\b", statement.sql)


def _told(connection: psycopg.Connection[Any], statement: Statement, given: Mapping[str, Any]) -> list[Any] | str:
    pg = connection.pgconn
    prepared = pg.prepare(b"", statement.sql)
    if prepared.status != ExecStatus.COMMAND_OK:
        return _sqlstate(prepared)
    types = pg.describe_prepared(b"")
    chosen = [given.get(name, OTHERWISE.get(types.param_type(at))) for at, name in enumerate(statement.parameters)]
    result = pg.exec_prepared(b"", [encoded(value) for value in chosen], [1] * len(chosen) or None, 1)
    if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
        return _sqlstate(result)
    return [result.command_tuples, *([result.get_value(row, at) for at in range(result.nfields)] for row in range(result.ntuples))]


def _sqlstate(result: Any) -> str:
    return (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()


def _rows_of(connection: psycopg.Connection[Any], org: str) -> dict[str, Any]:
    tables = connection.execute(
        "SELECT table_name FROM information_schema.columns WHERE table_schema = 'remit' AND column_name = 'org' ORDER BY 1"
    ).fetchall()
    query = "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM remit.{} AS t WHERE org = %s"
    return {table: connection.execute(sql.SQL(query).format(sql.Identifier(table)), [org]).fetchone() for (table,) in tables}


BLOCKS = sorted(SQL.keys() - HOST.keys())


def but_for_the_owner(name: str, callers: Mapping[str, Somebody]) -> list[Somebody]:
    return [who for who in callers.values() if name not in LISTS_ORGS or who.role != OWNER]


@pytest.mark.parametrize("name", BLOCKS)
def test_who_acts_for_one_org_is_shown_and_changes_nothing_of_another(databases: Databases, name: str) -> None:
    ours, theirs = (values(databases.both, org) for org in ("acme", "other"))
    foreign = {} if reads(SQL[name]) else _rows_of(databases.both, "other")
    told_anything = False
    for caller in but_for_the_owner(name, CALLERS):
        for given in (ours, theirs, {**theirs, "org": "acme"}, {**ours, "org": "other"}):
            in_both, left = asked(databases.both, caller, SQL[name], given)
            in_ours, _ = asked(databases.ours, caller, SQL[name], given)
            assert in_both == in_ours
            assert left == foreign
            told_anything = told_anything or isinstance(in_both, list)
    assert told_anything, f"at least once it is carried out: {in_both}"


@pytest.mark.parametrize("name", BLOCKS)
def test_who_acts_for_nobody_is_shown_and_changes_nothing_at_all(databases: Databases, name: str) -> None:
    foreign = {} if reads(SQL[name]) else _rows_of(databases.both, "other")
    for caller in but_for_the_owner(name, NOBODIES):
        for org in ("acme", "other"):
            given = values(databases.both, org)
            in_both, left = asked(databases.both, caller, SQL[name], given)
            in_none, _ = asked(databases.none, caller, SQL[name], given)
            assert in_both == in_none or isinstance(in_both, str)
            assert left == foreign


@pytest.mark.parametrize("name", BLOCKS)
def test_the_statement_alone_keeps_to_its_org_where_no_policy_would(databases: Databases, name: str) -> None:
    """The superuser, whom no policy concerns, is shown in `both` what stands in `ours`: the predicate is a mechanism of its own."""
    given = {**values(databases.both, "other"), "org": "acme"}
    superuser = Somebody(None, None, None)
    foreign = {} if reads(SQL[name]) else _rows_of(databases.both, "other")
    for scope in (given, {**given, **{key: values(databases.both, "acme")[key] for key in ("shelves", "keys", "memories", "eligible")}}):
        in_both, left = asked(databases.both, superuser, SQL[name], scope)
        in_ours, _ = asked(databases.ours, superuser, SQL[name], scope)
        if name not in WITHOUT_ORG:
            assert in_both == in_ours
        assert left == foreign


WITHOUT_ORG = {"anything_seen", "tenants"}
"""Statements that name no org: they try whether the policies alone hold, or list the orgs."""


def test_only_the_owner_may_list_the_orgs(databases: Databases) -> None:
    given = values(databases.both, "other")
    shown = {caller: asked(databases.both, who, SQL["tenants"], given)[0][1][0] for caller, who in (CALLERS | NOBODIES).items()}

    assert {caller for caller, told in shown.items() if told and b"other" in told} == {"for acme as the owner", "for nobody as the owner"}


@pytest.mark.parametrize("role", ["SUPERUSER", "BYPASSRLS", "member"])
async def test_a_role_that_no_policy_would_hold_is_refused_before_any_statement(databases: Databases, role: str) -> None:
    name = f"remit_too_strong_{role.lower()}"
    with psycopg.connect(databases.dsn, autocommit=True) as connection:
        kind = "NOLOGIN" if role == "member" else role
        connection.execute(sql.SQL("CREATE ROLE {} " + kind).format(sql.Identifier(name)))
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(APP), sql.Identifier(name)))
        if role == "member":
            connection.execute(sql.SQL("CREATE ROLE remit_bypassing BYPASSRLS; GRANT remit_bypassing TO {}").format(sql.Identifier(name)))
    try:
        with pytest.raises(UnsafeStorage):
            await open_postgres(databases.dsn, replace(SETTINGS, role=name), SIGNATURE)
    finally:
        with psycopg.connect(databases.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
            connection.execute("DROP ROLE IF EXISTS remit_bypassing")


def test_a_leaky_function_in_a_predicate_never_sees_a_foreign_row(databases: Databases) -> None:
    connection, seen = databases.both, list[str]()
    connection.add_notice_handler(lambda notice: seen.append(notice.message_primary or ""))
    with connection.transaction(force_rollback=True):
        connection.execute(
            "CREATE FUNCTION public.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS "
            "$$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$"
        )
        tables = list(_rows_of(connection, "other"))
        connection.execute(sql.SQL("SET LOCAL ROLE {}; SET LOCAL app.org = 'acme'; SET LOCAL app.scopes = '*'").format(sql.Identifier(APP)))
        for table in tables:
            connection.execute(sql.SQL("SELECT count(*) FROM remit.{} WHERE public.leak(org)").format(sql.Identifier(table)))
        connection.execute("RESET ROLE")
        leaked = set(seen)
        connection.execute("SELECT count(*) FROM remit.memory WHERE public.leak(org)")

    assert leaked == {"saw acme"}
    assert set(seen) == {"saw acme", "saw other"}, "as a superuser it does see them"


# Every statement has such a test: they are taken from the file itself. What is left out there must touch no row of any org.


def test_statements_left_out_touch_no_row_of_an_org(databases: Databases) -> None:
    tables = "|".join(_rows_of(databases.both, "other"))
    touching = {name for name in HOST if re.search(rf"\bremit\.({tables})\b", SQL[name].sql.decode())}

    assert touching - {"owned"} == set()
    assert HOST.keys() <= SQL.keys()


def test_every_statement_on_rows_of_an_org_names_the_org_and_schemas(databases: Databases) -> None:
    tables = list(_rows_of(databases.both, "other"))
    for name in BLOCKS:
        text = SQL[name].sql.decode()
        assert name in WITHOUT_ORG or "org" in SQL[name].parameters, name
        for table in tables:
            unqualified = re.findall(rf"(?:FROM|JOIN|INTO|UPDATE)\s+{table}\b", text)
            assert unqualified == [], f"{name} names {table} without its schema"


@pytest.mark.parametrize("name", BLOCKS)
def test_a_table_of_the_same_name_in_a_temporary_schema_changes_nothing(databases: Databases, name: str) -> None:
    given = values(databases.ours, "acme")
    caller = CALLERS["for acme"]
    before, _ = asked(databases.ours, caller, SQL[name], given)
    with databases.ours.transaction(force_rollback=True):
        for table in _rows_of(databases.ours, "acme"):
            databases.ours.execute(sql.SQL("CREATE TEMP TABLE {} (nothing text)").format(sql.Identifier(table)))
        databases.ours.execute("SET LOCAL search_path = pg_temp, public")
        after, _ = asked(databases.ours, caller, SQL[name], given)
    assert after == before
