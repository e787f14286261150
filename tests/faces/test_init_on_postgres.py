"""`remit init` as an owner and a DBA meet it: what has to be run is told, by whom it is opened, and never a password. B1.6."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from databases import APP, login
from faces.running import Remit
from psycopg import conninfo, sql
from servers import Postgres

CANARY = "zqpassword7732"
OWNER, SERVICE, ROLE = "remit_init_owner", "remit_init_service", "remit_init_role"
CONFIG = f'[postgres]\nrole = "{ROLE}"\n'


def as_(dsn: str, user: str) -> str:
    return login(conninfo.make_conninfo(dsn, password=CANARY), user)


def run(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as database:
        for statement in statements:
            database.execute(statement.encode())


@pytest.fixture
def empty(postgres_server: Postgres, tmp_path: Path) -> Iterator[str]:
    """The superuser's DSN of an empty database of an owner that may make nothing but schemas in it, and a config with a role of its own."""
    (tmp_path / "own.toml").write_text(CONFIG)
    dsn = postgres_server.create()
    database = sql.Identifier(str(conninfo.conninfo_to_dict(dsn)["dbname"])).as_string()
    run(dsn, f"CREATE ROLE {OWNER} LOGIN", f"CREATE ROLE {SERVICE} LOGIN", f"GRANT CREATE ON DATABASE {database} TO {OWNER}")
    try:
        yield dsn
    finally:
        postgres_server.drop(dsn)
        run(postgres_server.dsn, f"DROP ROLE IF EXISTS {OWNER}, {SERVICE}, {ROLE}")


def test_init_tells_what_a_dba_must_run_and_when_that_was_run_the_store_is_there(remit: Remit, empty: str) -> None:
    owner = ("--config", "own.toml", "--store", as_(empty, OWNER))
    first, told = remit("init", *owner), remit("init", *owner, "--json")
    statements = told.json["forDba"].splitlines()
    assert (first.status, told.status, told.json["healthy"]) == (4, 4, None)
    assert [each.split()[0] for each in statements] == ["CREATE", "CREATE", "GRANT"]
    assert all(each in first.out for each in statements)
    assert "`remit init` again" in " ".join(first.out.split())

    run(empty, *statements)
    again = remit("init", *owner)
    assert again.status == 0
    assert "is as it should be" in again.out

    service = ("--config", "own.toml", "--store", as_(empty, SERVICE))
    refused = remit("doctor", *service)
    assert refused.status == 4
    assert "grant it that role" in refused.err
    run(empty, f"GRANT {ROLE} TO {SERVICE}")
    examined = remit("doctor", *service, "--json")
    assert (examined.status, examined.json["faults"]) == (0, [])
    assert examined.json["facts"]["rows and indexes"].startswith("not compared")
    assert remit("doctor", *owner, "--json").json["facts"]["rows and indexes"] == "compared in every org"

    by_service = remit("init", *service)
    assert by_service.status == 4
    assert "owns all that is in its schema remit" in by_service.err


def test_the_doctor_names_what_makes_a_store_unsafe_as_a_fault_with_its_fix(remit: Remit, empty: str) -> None:
    store = ("--config", "own.toml", "--store", empty)
    assert remit("init", *store).status == 0
    run(empty, "CREATE VIEW remit.everything AS SELECT text FROM remit.memory")

    examined = remit("doctor", *store, "--json")

    assert examined.status == 4
    assert [(fault["code"], fault["detail"]) for fault in examined.json["faults"]] == [
        ("unsafe_storage", "everything shows rows past row security.")
    ]
    assert "take back" in examined.json["faults"][0]["fix"]
    run(empty, "DROP VIEW remit.everything")
    assert remit("doctor", *store).status == 0


def test_where_the_role_logs_in_itself_the_owner_is_told_so(remit: Remit, empty: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(f'{CONFIG}profile = "cluster"\n')
    run(empty, f"CREATE ROLE {ROLE} LOGIN", "CREATE EXTENSION vector")

    made = remit("init", "--config", "own.toml", "--store", as_(empty, OWNER))

    assert made.status == 0
    assert "logs in itself" in made.out
    assert remit("doctor", "--config", "own.toml", "--store", as_(empty, ROLE)).status == 0


def test_no_command_prints_the_password_of_its_store(remit: Remit, empty: str, tmp_path: Path) -> None:
    (tmp_path / "facts.jsonl").write_text(json.dumps({"source": "fact", "id": "f1", "text": "The harbour opens at six."}))
    store = ("--store", as_(empty, str(conninfo.conninfo_to_dict(empty)["user"])))
    commands = (
        ["init"],
        ["init", "--json"],
        ["add", "facts.jsonl"],
        ["recall", "harbour", "--json", "--trace", "--log"],
        ["doctor", "--json"],
    )

    ran = [remit(*command, *store) for command in commands]

    assert [each.status for each in ran] == [0] * len(commands)
    assert ran[1].json["store"].startswith("postgresql://")
    assert ran[0].out.splitlines()[-1].startswith("made postgresql://")
    assert all(CANARY not in each.out + each.err for each in ran)
    assert APP in ran[4].out
