"""MiniLM through its embedder against the bare onnxruntime loop over the same texts, batched by length, in one run."""

from __future__ import annotations

from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime
from figures import ratio, row
from numpy.typing import NDArray
from tokenizers import Tokenizer

from remit.pipeline.config import load
from remit.pipeline.embedding.minilm import MODEL, MOST_TOKENS, TOKENIZER, MiniLM, MiniLMModel, content_of

TEXTS, ROUNDS, BATCH = 128, 5, 32


def texts() -> list[str]:
    """Facts, turns and chunks of a plausible mix of lengths."""
    random = Random(7)
    words = ["".join(random.choices("aeiourstlnmdcp", k=random.randint(2, 9))) for _ in range(5000)]
    return [" ".join(random.choices(words, k=random.choice([6, 8, 10, 14, 20, 40]))) for _ in range(TEXTS)]


def bare_loop(threads: int) -> Any:
    """What one would write by hand: sort by length, pad, run, pool."""
    tokenizer = Tokenizer.from_buffer(content_of(TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MOST_TOKENS)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(content_of(MODEL), sess_options=options, providers=["CPUExecutionProvider"])

    def embed(given: list[str]) -> NDArray[np.float32]:
        tokens = [each.ids for each in tokenizer.encode_batch_fast(given)]
        order = sorted(range(len(tokens)), key=lambda place: len(tokens[place]))
        vectors = np.zeros((len(given), 384), np.float32)
        for first in range(0, len(order), BATCH):
            part = order[first : first + BATCH]
            ids = np.zeros((len(part), len(tokens[part[-1]])), np.int64)
            mask = np.zeros_like(ids)
            for line, place in enumerate(part):
                ids[line, : len(tokens[place])], mask[line, : len(tokens[place])] = tokens[place], 1
            hidden = session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})[0]
            pooled = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            vectors[part] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors

    return embed


async def against_the_bare_loop(_: Path) -> list[dict[str, Any]]:
    """Both in turns, so that what else the machine does falls on both. The price of threads, checks and cancellation is the ratio."""
    settings = load().embedding.minilm
    bare, given = bare_loop(settings.threads), texts()
    embedder = MiniLM(MiniLMModel(threads=settings.threads, run_tokens=settings.run_tokens))
    assert np.allclose(bare(given), await embedder.embed(given), atol=1e-5)
    by_hand: list[float] = []
    ours: list[float] = []
    for _round in range(ROUNDS):
        started = perf_counter()
        bare(given)
        by_hand.append(perf_counter() - started)
        started = perf_counter()
        await embedder.embed(given)
        ours.append(perf_counter() - started)
    rate = round(TEXTS / sorted(ours)[ROUNDS // 2])
    return [row("bare loop", by_hand), {**row("embedder", ours), "texts/s": rate, "p50 ratio": ratio(ours, by_hand, 50)}]
