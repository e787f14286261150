"""The model on this machine: its files are what they were, meaning counts, and the event loop goes on."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.pipeline.embedding import minilm
from remit.pipeline.embedding.minilm import MODEL, TOKENIZER, MiniLM, MiniLMModel, content_of
from remit.pipeline.errors import ConfigError
from remit.stages.evidence import Lane

MODEL_HERE = MiniLMModel(threads=1, run_tokens=512)
"""Loaded once for all of these tests."""

TEXTS = ["The cat sleeps on the sofa.", "Our ferry leaves the harbour at noon.", "Invoices are paid within thirty days.", "café", "東京"]


async def test_a_question_is_nearest_to_what_means_the_same() -> None:
    embedder = MiniLM(MODEL_HERE)
    passages = await embedder.embed(TEXTS)
    questions = await embedder.embed(["When does the boat depart?", "kitten napping on a couch", "payment terms for bills"])

    assert (passages @ questions.T).argmax(axis=0).tolist() == [1, 0, 2]
    assert (passages.shape, passages.dtype) == ((5, 384), np.float32)
    assert np.allclose(np.linalg.norm(passages, axis=1), 1, atol=1e-6)


async def test_a_text_has_one_vector_whatever_stands_beside_it() -> None:
    embedder = MiniLM(MODEL_HERE)
    together = await embedder.embed([*TEXTS, "a " * 300])

    for place, text in enumerate(TEXTS):
        alone = await embedder.embed([text])
        assert np.allclose(alone[0], together[place], atol=1e-6)


async def test_nothing_to_embed_is_a_zero_row() -> None:
    vectors = await MiniLM(MODEL_HERE).embed(["", " \n\t", "\x00\x01", "a"])

    assert vectors.any(axis=1).tolist() == [False, False, False, True]
    assert (await MiniLM(MODEL_HERE).embed([])).shape == (0, 384)


ODD = {
    "half a character": "\ud83d alone",
    "special tokens": "[CLS] [SEP] [PAD] <|endoftext|>",
    "one long word": "x" * 200_000,
    "a word too long for the tokenizer": "a" * 101,
    "directions and joiners": "\u202e\u200d",
    "ten thousand marks": "e" + "\u0301" * 10_000,
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
async def test_any_text_is_embedded(text: str) -> None:
    vectors = await MiniLM(MODEL_HERE).embed([text])

    assert np.isfinite(vectors).all()
    assert vectors.shape == (1, 384)


async def test_of_a_long_text_the_beginning_counts() -> None:
    beginning = "ferry timetable " * 200
    one, other = await MiniLM(MODEL_HERE).embed([beginning + "cats", beginning + "invoices"])

    assert np.array_equal(one, other)


def test_its_space_names_model_revision_dimensions_and_prefix() -> None:
    embedder = MiniLM(MODEL_HERE)

    assert embedder.space == f"all-MiniLM-L6-v2-int8@{minilm.REVISION}/384/plain"
    assert (embedder.lane, embedder.dimensions) == (Lane.SEMANTIC, 384)


@given(st.lists(st.integers(0, 40), max_size=60))
def test_runs_hold_every_text_with_tokens_once_and_no_more_than_they_may(lengths: list[int]) -> None:
    model = MiniLMModel(threads=1, run_tokens=50)
    runs = list(model.runs([[7] * length for length in lengths]))

    assert sorted(place for run in runs for place in run.places) == [place for place, length in enumerate(lengths) if length > 2]
    for run in runs:
        assert len(run.places) == 1 or len(run.places) * max(map(len, run.tokens)) <= 50
        assert [len(tokens) for tokens in run.tokens] == [lengths[place] for place in run.places]


# The files


def test_both_files_are_those_the_model_was_published_with() -> None:
    assert len(content_of(MODEL)) == 22_928_619
    assert content_of(TOKENIZER).startswith(b"{")


def test_a_file_that_is_another_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.onnx of the installed package"):
        content_of(replace(MODEL, sha256="0" * 64))


@pytest.mark.parametrize("missing", [replace(MODEL, package="no_such_package"), replace(MODEL, name="no such file")])
def test_a_missing_file_says_what_to_install(missing: Any) -> None:
    with pytest.raises(ConfigError, match=r"remit\[local\]"):
        content_of(missing)


def test_no_code_of_the_packages_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Their files are read by path: a package that would fail, or call home, at import does not get the chance."""
    (tmp_path / "loud.py").write_text("raise SystemExit")
    package = tmp_path / "loud_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit")
    (package / "model.onnx").write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()

    with pytest.raises(ConfigError, match="is not the one"):
        content_of(replace(MODEL, package="loud_package"))


# The event loop


async def test_the_event_loop_goes_on_while_texts_are_embedded() -> None:
    """Not timed: another task takes many turns while texts are embedded, which it could not if the loop were held."""
    turns = 0
    done = anyio.Event()

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await MiniLM(MODEL_HERE).embed(TEXTS * 8)
        done.set()

    assert turns > 100


async def test_a_cancelled_list_ends_after_the_run_at_hand() -> None:
    ran = 0

    class Counting(MiniLMModel):
        def sentences(self, run: Any) -> Any:
            nonlocal ran
            ran += 1
            anyio.from_thread.run_sync(scope.cancel)
            return super().sentences(run)

    with anyio.CancelScope() as scope:
        await MiniLM(Counting(threads=1, run_tokens=16)).embed(TEXTS * 4)

    assert scope.cancelled_caught
    assert ran == 1


async def test_the_model_is_loaded_once_by_whoever_comes_first() -> None:
    loaded = 0

    class Counting(MiniLMModel):
        def _load(self) -> Any:
            nonlocal loaded
            loaded += 1
            return super()._load()

    model = Counting(threads=1, run_tokens=512)
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(MiniLM(model).embed, ["a"])

    assert loaded == 1
