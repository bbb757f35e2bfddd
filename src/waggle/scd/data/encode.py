"""The decision corpus as arrays of tokens, encoded once by worker processes, and its batches.

    FOLDER/decisions-train-HASH.safetensors     one file per set; HASH covers all it depends on

The records of an update and their orbit elements are pure functions of (seed, update), so the
images of a whole stage are encoded in advance, and every arm of every seed reads arrays.
Invariant: sets do not depend on the number of workers; a file under its final name is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from waggle.core import orbit
from waggle.core.canon import decode_view
from waggle.core.order import Order
from waggle.core.schema import Decision
from waggle.core.seeds import derive
from waggle.core.summary import field, rho
from waggle.corpus.store import CorpusError, Store, Transition
from waggle.process_pool import process_pool
from waggle.scd.config import Recipe, Stage
from waggle.scd.data import arrays
from waggle.scd.data.arrays import Index, Rows
from waggle.scd.data.batches import Batches, Schedule, StratifiedSchedule
from waggle.scd.data.records import field_targets, image, in_order
from waggle.scd.data.tokenize import ChatEncoder, tokenizer_digest

CHUNK = 256
"""Number of records that a worker encodes per call."""


class _Item(NamedTuple):
    """A decision record to encode; with a seed, its orbit image."""

    key: str
    view: bytes
    decision: Decision
    seed: int | None = None


class EncodedCorpus:
    """The encoded records of a corpus, in one order; a context manager for its worker processes."""

    def __init__(
        self, folder: Path, store: Store, tokenizer: Any, order: Order, *, longest: int,
        workers: int = 1,
    ) -> None:  # fmt: skip
        """Open the corpus; a set is encoded when it is first requested.

        Args:
            folder: where encoded sets are kept.
            store: the corpus.
            tokenizer: the backbone's tokenizer.
            order: canon order of the views.
            longest: decision records with more tokens are left out.
            workers: number of processes that encode.
        """
        self._folder, self._store, self._order = folder, store, order
        self._tokenizer, self._longest, self._workers = tokenizer, longest, workers
        self._name = [tokenizer_digest(tokenizer), order, longest]
        self._opened = ExitStack()
        self._pool: ProcessPoolExecutor | None = None
        self._items: dict[str, list[_Item]] = {}

    def __enter__(self) -> EncodedCorpus:
        return self

    def __exit__(self, *_error: object) -> None:
        self._opened.close()
        self._pool = None

    def decisions(self, split: str, limit: int | None = None) -> Rows:
        """Return the labelled views of a split, or of its first `limit`, that fit the context."""
        found = self._decisions(split, limit)
        return found.take(self._fitting(found))

    def _decisions(self, split: str, limit: int | None = None) -> Rows:
        def make() -> Rows:
            return self._encoded(_encode_decisions, self._labelled(split)[:limit])

        return self._kept(f"decisions-{split}", ["decisions", split, limit], make)

    def _fitting(self, found: Rows) -> Index:
        kept = np.flatnonzero(found.inputs < self._longest)
        if not len(kept):
            raise CorpusError(
                f"no record fits {self._longest} tokens; raise max_context in the recipe"
            )
        return kept

    def images(self, seed: int, updates: int, batch: int) -> Rows:
        """Return the orbit image of every training record of every update, in update order."""

        def make() -> Rows:
            labelled = self._labelled("train")
            items = [labelled[i] for i in self._fitting(self._decisions("train"))]
            schedule = Schedule(len(items), batch, seed, "decisions")
            drawn = [
                items[i]._replace(seed=derive(seed, "orbit", items[i].key, epoch))
                for update in range(updates)
                for i, epoch in schedule.batch(update)
            ]
            return self._encoded(_encode_decisions, drawn)

        return self._kept("images", ["images", seed, updates, batch], make)

    def transitions(self, split: str, limit: int | None = None) -> Rows:
        """Return the transitions of a split, or its first `limit`."""
        played = self._store.manifest().settings.get("transitions", {}).get("order", "shuffled")
        fresh = self._order == "shuffled" and played == "canonical"

        def make() -> Rows:
            work = partial(_encode_transitions, fresh=fresh)
            return self._encoded(work, list(self._store.transitions(split))[:limit])

        asked = ["transitions", split, limit, *(["fresh"] if fresh else [])]
        return self._kept(f"transitions-{split}", asked, make)

    def _kept(self, name: str, asked: list[Any], make: Callable[[], Rows]) -> Rows:
        """Return a set from its file, making the file first if it is missing."""
        part = "transitions" if asked[0] == "transitions" else "decisions"
        shards = [[shard.sha256 for shard in some] for some in self._store.splits(part).values()]
        digest = hashlib.sha256(json.dumps([self._name, asked, shards]).encode()).hexdigest()[:12]
        path = self._folder / f"{name}-{digest}.safetensors"
        if path.exists():
            return arrays.load(path)
        made = make()
        arrays.save(path, made)
        return made

    def _labelled(self, split: str) -> list[_Item]:
        if split not in self._items:
            examples = self._store.examples("decisions", split)
            self._items[split] = [
                _Item(e.key, bytes(e.view), e.decision) for e in examples if e.decision is not None
            ]
            if not self._items[split]:
                raise CorpusError("the corpus has no labelled record; run `waggle corpus label`")
        return self._items[split]

    def _encoded(self, work: Callable[[Any], Rows], records: Sequence[Any]) -> Rows:
        """Encode records in chunks, in worker processes if there are several of each."""
        chunks = [records[i : i + CHUNK] for i in range(0, len(records), CHUNK)]
        if self._workers <= 1 or len(chunks) <= 1:
            _open(self._tokenizer, self._order)
            return arrays.stack([work(chunk) for chunk in chunks])
        if self._pool is None:
            given = (self._tokenizer, self._order)
            self._pool = self._opened.enter_context(process_pool(self._workers, _open, *given))
        return arrays.stack(list(self._pool.map(work, chunks)))


def decision_batches(corpus: EncodedCorpus, stage: Stage, seed: int) -> Batches:
    """Return batches of decisions alone, for stage one and for the learning-rate search."""
    decisions = corpus.decisions("train")
    return Batches(decisions, Schedule(len(decisions), stage.batch, seed, "decisions"), stage.batch)


def scd_batches(corpus: EncodedCorpus, recipe: Recipe, seed: int) -> Batches:
    """Return the batches of stage two: decisions, their orbit images, and transitions."""
    stage, decisions = recipe.stage_two, corpus.decisions("train")
    images = None
    if recipe.order == "shuffled":
        images = corpus.images(seed, stage.updates, stage.batch)
    transitions = corpus.transitions("train")
    return Batches(
        decisions, Schedule(len(decisions), stage.batch, seed, "decisions"), stage.batch,
        images=images, transitions=transitions,
        strata=StratifiedSchedule(
            transitions.eventful.tolist(), stage.transition_batch, recipe.transitions.eventful, seed
        ),
    )  # fmt: skip


_STATE: dict[str, Any] = {}
"""The encoder and order of this worker process."""


def _open(tokenizer: Any, order: Order) -> None:
    _STATE.update(encoder=ChatEncoder(tokenizer), order=order)


def _encode_decisions(items: Sequence[_Item]) -> Rows:
    shown, labels = [], []
    for item in items:
        view = decode_view(item.view)
        labels.append(rho(view, item.decision).indices())
        if item.seed is None:
            shown.append(in_order(view, item.decision, _STATE["order"]))
        else:
            shown.append(image(view, item.decision, item.seed))
    encoded = _STATE["encoder"].encode([v for v, _ in shown], [d for _, d in shown])
    return arrays.from_encoded(encoded, labels)


def _encode_transitions(records: Sequence[Transition], *, fresh: bool) -> Rows:
    """Encode transitions; targets come from the next view.

    Args:
        records: the transitions.
        fresh: encode an orbit image, drawn by the record's key. Episodes that were played in
            canonical order need it; labels and targets stay, since they contain no names or
            positions.
    """
    views = [decode_view(bytes(record.view)) for record in records]
    if fresh:
        shown = [
            orbit.sample(view, derive(0, "shown", record.key)).view(view)
            for view, record in zip(views, records, strict=True)
        ]
    else:
        shown = [in_order(view, None, _STATE["order"])[0] for view in views]
    return arrays.from_encoded(
        _STATE["encoder"].encode(shown, [None] * len(shown)),
        [rho(v, record.decision).indices() for v, record in zip(views, records, strict=True)],
        [field_targets(field(decode_view(bytes(record.next)))) for record in records],
        [bool(record.events) for record in records],
    )
