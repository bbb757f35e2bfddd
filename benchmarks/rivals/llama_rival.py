"""llama.cpp, by the bindings of llama-cpp-python: one sequence a row, all rows in one batch.

With a shared beginning, its cells are read once into a sequence of their own and copied to every
row. Rows that have ended leave the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from benchmarks.rivals import gguf_file
from benchmarks.rivals.job import Answers, Decode, Job, Rival, Variant
from benchmarks.setup import Ask
from waggle.core.errors import ConfigError

AT_ONCE = 2048
"""Tokens that are handed over in one call."""
SPARE = 64
"""Cells of a sequence beyond those it needs: the library rounds."""
PRECISIONS = ("Q4_1", "Q8_0", "F32", "Q4_0")
"""Of the matrices; the library reorders those in Q4_0 for the CPU when it loads them."""
MOST = 256
"""Sequences that the library can tell apart."""


def variants(job: Job) -> list[Variant]:
    """Return the configurations, the one known as the fastest last."""
    found = [Variant(k, "batch", False, partial(_opened, job, k, False)) for k in PRECISIONS[-2:]]
    if job.batch + len(job.prefixes) <= MOST:
        how = "cells of the prefix copied"
        found += [Variant(k, how, True, partial(_opened, job, k, True)) for k in PRECISIONS]
    return found


RIVAL = Rival("llama-cpp-python", ("llama_cpp", "gguf"), variants)


class Fed(NamedTuple):
    """A token on its way into the model."""

    token: int
    place: int
    row: int
    asked: bool


@contextmanager
def _opened(job: Job, precision: str, shares: bool) -> Iterator[Decode]:
    library: Any = import_module("llama_cpp")
    silent = library.llama_log_callback(_ignore)
    library.llama_log_set(silent, None)
    library.llama_backend_init()
    file = job.folder / f"{precision}.gguf"
    if not file.is_file():
        gguf_file.write(job.model, file, precision)
    model = library.llama_model_load_from_file(str(file).encode(), _model_wish(library))
    if not model:
        raise ConfigError(f"llama.cpp does not read {file.name}; try another of its versions")
    context = library.llama_init_from_model(model, _context_wish(library, job, precision, shares))
    batch = library.llama_batch_init(AT_ONCE, 0, 1)
    try:
        yield _Rows(job, library, context, batch, shares).decode
    finally:
        library.llama_batch_free(batch)
        library.llama_free(context)
        library.llama_model_free(model)


def _ignore(_: int, __: bytes, ___: Any) -> None:
    """The library writes pages about every file it reads."""


def _model_wish(library: Any) -> Any:
    wish = library.llama_model_default_params()
    wish.n_gpu_layers = 0
    return wish


def _context_wish(library: Any, job: Job, precision: str, shares: bool) -> Any:
    wish = library.llama_context_default_params()
    wish.n_seq_max = job.batch + (len(job.prefixes) if shares else 0)
    wish.n_ctx = wish.n_seq_max * (job.longest + job.new_tokens + SPARE)
    wish.n_batch = AT_ONCE
    wish.n_threads = wish.n_threads_batch = job.threads
    if precision == "F32":  # keys and values are rounded to sixteen bits otherwise
        wish.type_k = wish.type_v = library.GGML_TYPE_F32
    return wish


class _Rows:
    """Rows as sequences of one context."""

    def __init__(self, job: Job, library: Any, context: Any, batch: Any, shares: bool) -> None:
        self._job, self._library, self._context, self._batch = job, library, context, batch
        self._memory = library.llama_get_memory(context)
        self._shares = shares
        self._kept: dict[tuple[int, ...], int] = {}
        self._words = job.model.config.vocab_size

    def decode(self, asks: Sequence[Ask], count: int) -> Answers:
        """Decode one batch."""
        answers: list[list[int]] = [[] for _ in asks]
        places = [len(ask.prefix) + len(ask.tail) for ask in asks]
        said = self._run([fed for row, ask in enumerate(asks) for fed in self._entering(row, ask)])
        while said:
            for row, token in said.items():
                answers[row].append(token)
            going = [r for r, t in said.items() if len(answers[r]) < count and not self._ends(t)]
            said = self._run(
                [Fed(said[r], places[r] + len(answers[r]) - 1, r, True) for r in going]
            )
        return [self._job.cut(answer) for answer in answers]

    def _ends(self, token: int) -> bool:
        return token in self._job.ends and not self._job.forced

    def _entering(self, row: int, ask: Ask) -> list[Fed]:
        """Clear a row, give it what is kept of its beginning, and return the rest of its prompt."""
        self._library.llama_memory_seq_rm(self._memory, row, -1, -1)
        if not self._shares:
            return _fed((*ask.prefix, *ask.tail), 0, row, True)
        if ask.prefix not in self._kept:
            kept = self._kept[ask.prefix] = self._job.batch + len(self._kept)
            self._run(_fed(ask.prefix, 0, kept, False))
        self._library.llama_memory_seq_cp(self._memory, self._kept[ask.prefix], row, -1, -1)
        return _fed(ask.tail, len(ask.prefix), row, True)

    def _run(self, feed: list[Fed]) -> dict[int, int]:
        """Run tokens; return the most likely next one of every row that asked."""
        said: dict[int, int] = {}
        for first in range(0, len(feed), AT_ONCE):
            part = feed[first : first + AT_ONCE]
            self._fill(part)
            if code := self._library.llama_decode(self._context, self._batch):
                raise RuntimeError(f"llama_decode returned {code}")
            said |= {f.row: self._likeliest(i) for i, f in enumerate(part) if f.asked}
        return said

    def _fill(self, part: list[Fed]) -> None:
        batch = self._batch
        batch.n_tokens = len(part)
        for index, fed in enumerate(part):
            batch.token[index] = fed.token
            batch.pos[index] = fed.place
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = fed.row
            batch.logits[index] = fed.asked

    def _likeliest(self, index: int) -> int:
        np: Any = import_module("numpy")
        found = self._library.llama_get_logits_ith(self._context, index)
        logits = np.ctypeslib.as_array(found, shape=(self._words,))
        if self._job.forced:
            logits[sorted(self._job.ends)] = -np.inf
        return int(logits.argmax())


def _fed(tokens: Sequence[int], start: int, row: int, asked: bool) -> list[Fed]:
    last = len(tokens) - 1
    return [Fed(t, start + i, row, asked and i == last) for i, t in enumerate(tokens)]
