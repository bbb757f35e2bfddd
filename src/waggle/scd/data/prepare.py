"""Records encoded ahead of training, by worker processes, and kept as arrays.

    FOLDER/decisions-train-HASH.safetensors     one file per set; HASH names all that it depends on

Views are renamed, serialised and tokenised once; every arm of every seed then reads arrays. Which
records an update uses and which orbit element each gets are pure functions of (seed, update), so
images are made for all updates of a stage at once. Invariant: sets are the same whatever the
number of workers, and equal to what `data` encodes; a file under its final name is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from waggle.core.canon import decode_view
from waggle.core.order import Order
from waggle.core.schema import Decision
from waggle.core.seeds import derive
from waggle.core.summary import rho
from waggle.corpus.store import CorpusError, Store, Transition
from waggle.crew import crew
from waggle.scd.data import arrays as rows
from waggle.scd.data.arrays import Rows
from waggle.scd.data.records import Schedule, encode_moves, image, in_order
from waggle.scd.data.tokens import Coder
from waggle.scd.data.tokenstore import tokenizer_hash

CHUNK = 256
"""Records of one piece of work."""


class Ask(NamedTuple):
    """One decision record to be encoded; with a seed its orbit image."""

    key: str
    view: bytes
    decision: Decision
    seed: int | None = None


class Prepared:
    """The encoded records of one corpus, tokenizer and order; a context, for its workers."""

    def __init__(
        self, folder: Path, store: Store, tokenizer: Any, order: Order, *, longest: int,
        workers: int = 1,
    ) -> None:  # fmt: skip
        self._folder, self._store, self._order = folder, store, order
        self._tokenizer, self._longest, self._workers = tokenizer, longest, workers
        self._name = [tokenizer_hash(tokenizer), order, longest]
        self._open: ExitStack = ExitStack()
        self._pool: ProcessPoolExecutor | None = None
        self._kept: dict[str, list[Ask]] = {}

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *_error: object) -> None:
        self._open.close()
        self._pool = None

    def decisions(self, split: str, limit: int | None = None) -> Rows:
        """Return those of the (first so many) labelled views of a split that fit the context."""
        found = self._every(split, limit)
        return found.take(self._fitting(found))

    def _every(self, split: str, limit: int | None = None) -> Rows:
        def make() -> Rows:
            return self._made(_spell, self._asks(split)[:limit])

        return self._set(f"decisions-{split}", ["decisions", split, limit], make)

    def _fitting(self, found: Rows) -> rows.Index:
        kept = np.flatnonzero(found.fed < self._longest)
        if not len(kept):
            raise CorpusError(
                f"no record fits {self._longest} tokens; raise max_context in the recipe"
            )
        return kept

    def images(self, seed: int, updates: int, batch: int) -> Rows:
        """Return the orbit image of every training record of every update, in their order."""

        def make() -> Rows:
            every = self._asks("train")
            asks = [every[i] for i in self._fitting(self._every("train"))]
            plan = Schedule(len(asks), batch, seed, "decisions")
            places = [place for update in range(updates) for place in plan.batch(update)]
            drawn = [
                asks[i]._replace(seed=derive(seed, "orbit", asks[i].key, epoch))
                for i, epoch in places
            ]
            return self._made(_spell, drawn)

        return self._set("images", ["images", seed, updates, batch], make)

    def transitions(self, split: str, limit: int | None = None) -> Rows:
        """Return the transitions of a split, at most so many."""

        def make() -> Rows:
            work = _follow_afresh if fresh else _follow
            return self._made(work, list(self._store.transitions(split))[:limit])

        played = self._store.manifest().settings.get("transitions", {}).get("order", "shuffled")
        fresh = self._order == "shuffled" and played == "canonical"
        asked = ["transitions", split, limit, *(["fresh"] if fresh else [])]
        return self._set(f"transitions-{split}", asked, make)

    def _set(self, name: str, asked: list[Any], make: Callable[[], Rows]) -> Rows:
        part = "transitions" if asked[0] == "transitions" else "decisions"
        shards = [[shard.sha256 for shard in some] for some in self._store.splits(part).values()]
        digest = hashlib.sha256(json.dumps([self._name, asked, shards]).encode()).hexdigest()[:12]
        path = self._folder / f"{name}-{digest}.safetensors"
        if path.exists():
            return rows.load(path)
        made = make()
        rows.save(path, made)
        return made

    def _asks(self, split: str) -> list[Ask]:
        if split not in self._kept:
            every = self._store.examples("decisions", split)
            self._kept[split] = [
                Ask(e.key, bytes(e.view), e.decision) for e in every if e.decision is not None
            ]
            if not self._kept[split]:
                raise CorpusError("the corpus has no labelled record; run `waggle corpus label`")
        return self._kept[split]

    def _made(self, work: Callable[[Any], Rows], asked: Sequence[Any]) -> Rows:
        """Share work among processes; what comes back is in the order asked for."""
        chunks = [asked[i : i + CHUNK] for i in range(0, len(asked), CHUNK)]
        if self._workers <= 1 or len(chunks) <= 1:
            _open(self._tokenizer, self._order)
            return rows.stack([work(chunk) for chunk in chunks])
        if self._pool is None:
            given = (self._tokenizer, self._order)
            self._pool = self._open.enter_context(crew(self._workers, _open, *given))
        return rows.stack(list(self._pool.map(work, chunks)))


_STATE: dict[str, Any] = {}
"""What a worker process was opened with."""


def _open(tokenizer: Any, order: Order) -> None:
    _STATE.update(coder=Coder(tokenizer), order=order)


def _spell(asked: Sequence[Ask]) -> Rows:
    """Encode decision records, or their images."""
    shown, labels = [], []
    for ask in asked:
        view = decode_view(ask.view)
        labels.append(rho(view, ask.decision).indices())
        if ask.seed is None:
            shown.append(in_order(view, ask.decision, _STATE["order"]))
        else:
            shown.append(image(view, ask.decision, ask.seed))
    coded = _STATE["coder"].encode([v for v, _ in shown], [d for _, d in shown])
    return rows.of_sequences(coded, labels)


def _follow(asked: Sequence[Transition]) -> Rows:
    """Encode transitions."""
    return rows.of_moves(encode_moves(asked, _STATE["coder"], _STATE["order"]))


def _follow_afresh(asked: Sequence[Transition]) -> Rows:
    """Encode transitions that were played in canonical order, shown in another."""
    return rows.of_moves(encode_moves(asked, _STATE["coder"], _STATE["order"], fresh=True))
