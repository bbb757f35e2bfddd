"""The same seeds give the same corpus, byte for byte: recorded digests of every kind of view.

A digest covers views and labels in their order, so a renamed draw, a draw more or less, or another
label anywhere changes it. Whoever changes the corpus on purpose records the new digests here.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from itertools import islice

import pytest

from waggle import plugins
from waggle.core.canon import encode_decision, encode_view
from waggle.core.order import Order
from waggle.corpus import harvest, transitions
from waggle.corpus.curriculum import Curriculum
from waggle.corpus.settings import CorpusSettings, HarvestSettings, TransitionSettings

TASKS = ("swarmbench/pursuit", "silo/I-05")
COUNT = 100
"""Labelled views of each kind that are compared."""
HARVEST = {
    "native": "020410a81c651b12",
    "synthetic": "6e46c4717fec67b2",
    "disguised": "6fec7a25f6e67ea6",
    "close": "5b12fc624d8d2088",
    "ports": "b9af10ee44eca97e",
    "far": "1b2a68a90ecd9ded",
    "near": "198d0616c9afca2b",
}
CORPUS = "09b1bbada0a31124"
TRANSITIONS = "6029b4cececb75a7"
TOKENIZER_TEXTS = "e8968175ea28f9de"


def digest(parts: Iterable[bytes]) -> str:
    """Name a sequence of byte strings."""
    found = sha256()
    for part in parts:
        found.update(part + b"\n")
    return found.hexdigest()[:16]


def harvested(kind: str, order: Order) -> Iterable[bytes]:
    """Yield the first views of the jobs of one kind, each with its label."""
    settings = HarvestSettings.model_validate({"tasks": TASKS, "n": (8,), "rounds": 6, kind: 200})
    for job in harvest.plan(settings, "train")[:3]:
        for view, decision in harvest.gather(job, settings, order)[:COUNT]:
            yield encode_view(view) + encode_decision(decision)


@pytest.mark.parametrize("kind", HARVEST)
def test_every_kind_of_harvested_view_is_as_recorded(kind: str) -> None:
    order: Order = "canonical" if len(kind) % 2 else "shuffled"
    assert digest(harvested(kind, order)) == HARVEST[kind]


def test_the_decision_corpus_is_as_recorded() -> None:
    settings = CorpusSettings(
        tasks=TASKS, bundles=4, validation=1, test=1, native=6, native_held_out=2, disguised=20,
        far=20, n=(8,), rounds=4,
    )  # fmt: skip
    splits = Curriculum(settings).examples()
    rows = [row for some in splits.values() for row in some]
    found = digest(f"{r.key} {r.family} {r.source}".encode() + bytes(r.view) for r in rows)
    assert found == CORPUS


def test_transitions_are_as_recorded() -> None:
    settings = TransitionSettings(
        tasks=TASKS, train=30, validation=8, probe=0, test=0, n=(8,), rounds=5, episodes=4
    )
    splits = transitions.collect(settings, plugins.get_law("heuristic"))
    rows = [row for some in splits.values() for row in some]
    found = digest(
        f"{r.key} {r.events}".encode() + bytes(r.view) + encode_decision(r.decision) + bytes(r.next)
        for r in rows
    )
    assert found == TRANSITIONS


def test_the_texts_of_the_tokenizer_are_as_recorded() -> None:
    texts = islice(harvest.tokenizer_texts(), 300)
    assert digest(text.encode() for text in texts) == TOKENIZER_TEXTS
