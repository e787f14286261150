"""Drives txtai, embedded: hybrid of BM25 and vectors, the tenant as a column of its content, filtered after the search."""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import Any

os.environ["ALLOW_RESOLVE_TRANSFORM"] = "True"  # or it will not take our own vectors again when an index is loaded

import numpy as np
from asked import LIMIT, Ask, Question, Work
from numpy.typing import NDArray
from txtai import Embeddings

NAME = "txtai"
LANES = "words and vectors"
CANDIDATES = 500
VECTORS: dict[str, Any] = {}
"""Text → vector. Here, because an index remembers its transform by the name of a module's function."""


def transform(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.stack([VECTORS[text] for text in texts])


def known(work: Work) -> None:
    VECTORS.update({each.text: each.vector for each in (*work.rows, *work.questions)})


def load(work: Work, folder: str) -> None:
    known(work)
    embeddings = Embeddings(method="external", transform="txtai_peer.transform", hybrid=True, content=True, backend="faiss")
    embeddings.index((row.id, {"text": row.text, "org": row.org}, None) for row in work.rows)
    embeddings.save(folder)


def asking(work: Work, folder: str) -> Ask:
    known(work)
    embeddings = Embeddings()
    embeddings.load(folder)
    turn = Lock()  # its SQLite and faiss crash the process when several threads ask at once
    query = f"select id from txtai where similar(:text, {CANDIDATES}) and org = :org limit {LIMIT}"

    def ask(question: Question) -> list[str]:
        with turn:
            return [each["id"] for each in embeddings.search(query, parameters={"text": question.text, "org": question.org})]

    return ask
