"""Remit and its peers on the same work in one run: many tenants, far tenants, a growing foreign population; each in its own environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import Any

import anyio.to_thread
import numpy as np
import psycopg
from corpus import VOCABULARY, WORDS, memories, word
from figures import BESIDE
from numpy.typing import NDArray
from postgres_by_hand import versions
from psycopg import sql

from remit.pipeline.analysis import Analyser
from remit.pipeline.config import load
from remit.pipeline.embedding.local import LocalHash
from remit.pipeline.storage import migrations, postgres, sqlite
from remit.pipeline.storage.postgres.server import EmbeddedServer, started

HERE = Path(__file__).parent / "peers"
ROWS, FAR, ASKED, WARM, LOCAL = 500, 100, 200, 20, 128
SMALL = 3
"""Tenants of the small population: 1,000 foreign rows, a hundredth of the large one's."""
ROUNDS = 3
"""Rounds in which all are asked one after the other, so that what the machine does meanwhile falls on all."""


@dataclass(frozen=True)
class Peer:
    """A library at a version, the store it keeps its rows in, and the module that drives it. Without packages it is ours.

    `rows_of` is the module whose rows it asks, when these are not its own.
    """

    name: str
    module: str
    store: str
    packages: tuple[str, ...] = ()
    variant: tuple[str, ...] = ()
    rows_of: str = ""

    @property
    def rows(self) -> str:
        return self.rows_of or self.module


FLOOR = Peer("SQL by hand", "by_hand_peer", "postgres", rows_of="remit_peer")
"""What all are measured against: the two searches and a fusion, written by somebody who knows these tables."""

POSTGRES = (
    FLOOR,
    Peer("Remit, Postgres", "remit_peer", "postgres", variant=("shipped",)),
    Peer("Remit, Postgres, all 20", "remit_peer", "postgres", variant=("filled",)),
    Peer("langchain-postgres", "langchain_peer", "postgres", ("langchain-postgres==0.0.19", "psycopg[binary]==3.3.9", "numpy==2.4.6")),
    Peer("llama-index", "llamaindex_peer", "postgres", ("llama-index-vector-stores-postgres==0.9.0", "numpy==2.4.6")),
    Peer("haystack", "haystack_peer", "postgres", ("pgvector-haystack==8.1.2", "psycopg[binary]==3.3.9", "numpy==2.4.6")),
    Peer("mem0", "mem0_peer", "postgres", ("mem0ai==2.2.1", "psycopg[binary,pool]==3.3.9", "numpy==2.4.6")),
    Peer(
        "LangGraph",
        "langgraph_peer",
        "postgres",
        ("langgraph-checkpoint-postgres==3.2.0", "langgraph==1.2.24", "psycopg[binary]==3.3.9", "numpy==2.4.6"),
    ),
)
EMBEDDED = (
    Peer("Remit, SQLite", "remit_peer", "sqlite", variant=("shipped",)),
    Peer("Remit, SQLite, all 20", "remit_peer", "sqlite", variant=("filled",)),
    Peer("LanceDB", "lancedb_peer", "folder", ("lancedb==0.40.0", "numpy==2.4.6")),
    Peer("txtai", "txtai_peer", "folder", ("txtai==9.14.0",)),
    Peer("chromadb", "chromadb_peer", "folder", ("chromadb==1.5.9", "numpy==2.4.6")),
)
PEERS = POSTGRES + EMBEDDED


Told = dict[str, Any]


async def against_peers(
    folder: Path, *, tenants: int = 200, dimensions: int = LOCAL, only: Sequence[str] = (), rounds: int = ROUNDS
) -> list[Told]:
    """The table: latency of one client, questions a second of eight, how many of twenty came back and whether the wanted row was there."""
    small, large = made_work(folder, SMALL, dimensions), made_work(folder, tenants, dimensions)
    peers = [peer for peer in PEERS if not only or peer is FLOOR or peer.module in only]
    server = await started(folder / "peers-postgres", load().embedded)
    try:
        few: dict[str, list[Told]] = {peer.name: [] for peer in peers}
        many: dict[str, list[Told]] = {peer.name: [] for peer in peers}
        for _ in range(rounds):
            for peer in peers:
                for told, work in ((few, small), (many, large)):
                    told[peer.name].append(await anyio.to_thread.run_sync(asked, peer, work, folder, server))
        beside = {"server": await versions(server.dsn(database(FLOOR, large)))}
    finally:
        await server.close()
    return [
        line(peer, few[peer.name], many[peer.name], many[FLOOR.name]) | {BESIDE: told_beside(peer, many[peer.name], beside)}
        for peer in peers
    ]


def line(peer: Peer, few: Sequence[Told], many: Sequence[Told], floor: Sequence[Told]) -> Told:
    """What one peer did, large population beside small and beside the floor, each round with its like; medians of the rounds."""
    failed = [each["failed"] for each in (*many, *few, *floor) if "failed" in each]
    if failed:
        return {"name": peer.name, "p50": failed[0]}
    crowd, far = ([each[shape] for each in many] for shape in ("crowd", "far"))
    slower = [mine["crowd"]["p50"] / its["crowd"]["p50"] for mine, its in zip(many, floor, strict=True)]
    rate = [mine["crowd"]["aSecondAtEight"] / its["crowd"]["aSecondAtEight"] for mine, its in zip(many, floor, strict=True)]
    grown = [large["crowd"]["p50"] / small["crowd"]["p50"] for large, small in zip(many, few, strict=True)]
    return {
        "name": peer.name,
        "lanes": many[0]["lanes"],
        "p50": middle(crowd, "p50"),
        "/ floor": round(median(slower), 2),
        "spread": f"{min(slower):.2f}-{max(slower):.2f}",
        "p95": middle(crowd, "p95"),
        "/s at 8": middle(crowd, "aSecondAtEight"),
        "of floor": round(median(rate), 2),
        "of 20": crowd[0]["returned"],
        "found": crowd[0]["found"],
        "far p50": middle(far, "p50"),
        "far of 20": far[0]["returned"],
        "far found": far[0]["found"],
        "foreign": sum(each["foreign"] for each in (*crowd, *far)),
        "grown x100": round(median(grown), 2),
    }


def middle(shape: Sequence[Told], name: str) -> float:
    return round(median(each[name] for each in shape), 3)


def told_beside(peer: Peer, rounds: Sequence[Told], beside: Mapping[str, Any]) -> Told:
    """What the JSON has besides: with what versions, how long the rows took to load, how much memory, and every round."""
    told = {"packages": list(peer.packages), "rounds": list(rounds)}
    return {**told, **beside} if peer.store == "postgres" else told


def asked(peer: Peer, work: Path, folder: Path, server: EmbeddedServer) -> dict[str, Any]:
    """One peer over one population, in a process of its own. A peer that fails is a line of the table, not the end of the run."""
    try:
        python = environment(peer, folder)
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        return {"failed": "its packages cannot be installed"}
    where, loaded = place(peer, work, server), work / f"{stand(peer)}-{peer.store}.loaded"
    command = [str(python), str(HERE / "asked.py"), peer.module, str(work), where, str(loaded), *peer.variant]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("REMIT_", "PYTHON"))}
    if not peer.packages:
        clean["PYTHONPATH"] = str(HERE.parent)
    done = subprocess.run(command, capture_output=True, text=True, env=clean, check=False)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return {"failed": (done.stderr.strip().splitlines() or ["failed"])[-1][:60]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def environment(peer: Peer, folder: Path) -> Path:
    """The Python of a peer's own environment, made when it is not there; ours for Remit."""
    if not peer.packages:
        return Path(sys.executable)
    home = folder / "peers" / peer.module
    stated, wanted = home / "packages.txt", "\n".join(peer.packages)
    if not stated.exists() or stated.read_text(encoding="utf-8") != wanted:
        made = [sys.executable, "-m", "venv", "--clear", str(home)]
        for command in (made, [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *peer.packages]):
            subprocess.run(command, check=True, capture_output=True, text=True)
        stated.write_text(wanted, encoding="utf-8")
    return home / "bin" / "python"


def stand(peer: Peer) -> str:
    """The name of the rows that a peer asks. Ours are others with every change of the schema or the analyser, and so are loaded again."""
    if peer.packages:
        return peer.rows
    files = [each for store in (sqlite, postgres) for each in migrations.read(Path(store.__file__).parent / "migrations")]
    made_by = "".join(each.checksum for each in files) + Analyser("english").signature
    return f"{peer.rows}_{blake2b(made_by.encode(), digest_size=3).hexdigest()}"


def database(peer: Peer, work: Path) -> str:
    return f"{stand(peer)}_{work.name}".replace("-", "_")


def place(peer: Peer, work: Path, server: EmbeddedServer) -> str:
    """Where a peer keeps its rows: a database or a folder of its own for each population."""
    if peer.store == "sqlite":
        return f"sqlite:{work / stand(peer)}.db"
    if peer.store == "folder":
        return str(work / peer.module)
    name = database(peer, work)
    with psycopg.connect(server.dsn(), autocommit=True) as owner:
        if owner.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
            without_older(owner, peer, work)
            owner.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.dsn(name)


def without_older(owner: psycopg.Connection[Any], peer: Peer, work: Path) -> None:
    """Drops what earlier schemas left of these rows."""
    pattern = f"{peer.rows}%_{work.name}".replace("-", "_")
    for (name,) in owner.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", (pattern,)).fetchall():
        owner.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    for file in work.glob(f"{peer.rows}*"):
        if file.is_file():
            file.unlink()


def made_work(folder: Path, tenants: int, dimensions: int) -> Path:
    """A population of tenants with 500 rows each and one of 100 that talks of other things, and questions inside two of them.

    A question of the `crowd` is five words of one row of its tenant. One of the `far` tenant is a word of its own and four that the crowd
    uses most, so that its nearest rows are all the crowd's.
    """
    work = folder / f"peers-{tenants}x{ROWS}-{dimensions}"
    if (work / "probes.npy").exists():
        return work
    work.mkdir(parents=True, exist_ok=True)
    tenant, random = tenants // 2, np.random.default_rng(5)
    rows = [(f"org{org}", each.text) for org in range(tenants) for each in memories(f"org{org}", ROWS, org)]
    far = [" ".join(word(WORDS + number) for number in random.integers(0, 2000, 60)) for _ in range(FAR)]
    rows += [("far", text) for text in far]
    own = [text for org, text in rows if org == f"org{tenant}"]
    wanted = random.integers(0, ROWS, ASKED + WARM)
    asked = [("crowd", f"org{tenant}", " ".join(random.choice(own[row].split(), 5, replace=False)), tenant * ROWS + row) for row in wanted]
    for row in random.integers(0, FAR, ASKED + WARM):
        words = [random.choice(far[row].split()), *random.choice(VOCABULARY[:40], 4, replace=False)]
        asked.append(("far", "far", " ".join(words), tenants * ROWS + row))
    vectors = vectors_of(dimensions)
    np.save(work / "vectors.npy", vectors([text for _, text in rows]))
    written(work / "rows.jsonl", [{"id": str(number), "org": org, "text": text} for number, (org, text) in enumerate(rows)])
    written(
        work / "questions.jsonl",
        [{"shape": shape, "org": org, "text": text, "wanted": str(wanted)} for shape, org, text, wanted in asked],
    )
    np.save(work / "probes.npy", vectors([text for _, _, text, _ in asked]))
    return work


def written(file: Path, objects: Sequence[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(each) + "\n" for each in objects), encoding="utf-8")


def vectors_of(dimensions: int) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """At 128 dimensions the hash that Remit makes by itself; at others the sum of a random vector a word. Unit vectors."""
    if dimensions == LOCAL:
        local = LocalHash(Analyser("english"))
        return lambda texts: np.stack([local.vector_of(text) for text in texts])
    known: dict[str, NDArray[np.float64]] = {}

    def of_word(name: str) -> NDArray[np.float64]:
        if name not in known:
            known[name] = np.random.default_rng(list(name.encode())).standard_normal(dimensions)
        return known[name]

    def of_text(text: str) -> NDArray[np.float32]:
        vector = np.sum([of_word(name) for name in text.split()], axis=0)
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)

    return lambda texts: np.stack([of_text(text) for text in texts])
