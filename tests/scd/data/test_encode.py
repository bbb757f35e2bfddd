"""The encoded corpus: the same sets whatever the workers, made once, damaged ones refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.scd.oracle import sequences
from tests.scd.runs import encoded
from waggle.core.seeds import derive
from waggle.corpus.settings import TransitionSettings
from waggle.corpus.store import CorpusError, Store
from waggle.corpus.transitions import write
from waggle.plugins import get_law
from waggle.scd.data.arrays import Rows


def same(one: Rows, other: Rows) -> bool:
    columns = other.columns()
    return all(np.array_equal(column, columns[name]) for name, column in one.columns().items())


@pytest.mark.usefixtures("workers")
def test_sets_are_the_same_whatever_the_workers_and_are_made_once(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waggle.scd.data.encode.CHUNK", 4)
    found = []
    for name, workers in (("one", 1), ("two", 2)):
        with encoded(tmp_path / name, corpus, workers=workers) as some:
            found.append((some.decisions("train"), some.images(3, 4, 3), some.transitions("test")))
    for one, other in zip(*found, strict=True):
        assert same(one, other)
    monkeypatch.setattr("waggle.scd.data.encode._encode_decisions", None)
    with encoded(tmp_path / "one", corpus) as some:
        again = some.images(3, 4, 3)
    assert np.array_equal(again.ids, found[0][1].ids)


def test_a_damaged_set_is_one_line(corpus: Path, tmp_path: Path) -> None:
    with encoded(tmp_path, corpus) as some:
        some.decisions("test")
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    with (
        encoded(tmp_path, corpus) as some,
        pytest.raises(CorpusError, match=r"damaged.*delete it and run again"),
    ):
        some.decisions("test")


def test_images_are_those_of_the_training_seed(corpus: Path, tmp_path: Path) -> None:
    with encoded(tmp_path, corpus) as some:
        one, other = some.images(derive(0, "a"), 2, 3), some.images(derive(1, "a"), 2, 3)
    assert not np.array_equal(one.ids, other.ids)


def test_records_beyond_the_context_are_left_out(corpus: Path, tmp_path: Path) -> None:
    with encoded(tmp_path, corpus) as some:
        rows = some.decisions("train")
        some._longest = int(np.median(rows.inputs))
        assert 0 < len(some.decisions("train")) < len(rows)
        some._longest = 10
        with pytest.raises(CorpusError, match="no record fits 10 tokens"):
            some.decisions("train")


def test_transitions_played_in_canonical_order_are_shown_shuffled(
    corpus: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    shutil.copytree(corpus, folder)
    moves = TransitionSettings(
        tasks=("beacon",), train=16, validation=8, probe=12, test=12, n=(6,), rounds=8, episodes=4
    )
    write(Store(folder), moves, get_law("expert"), order="canonical")
    with encoded(tmp_path / "played", folder, "canonical") as some:
        played = some.transitions("test")
    found = []
    for name in ("one", "two"):
        with encoded(tmp_path / name, folder) as some:
            found.append(some.transitions("test"))
    assert same(*found)
    pairs = zip(sequences(found[0]), sequences(played), strict=True)
    assert sum(one != other for one, other in pairs) > len(played) // 2
    for name in ("labels", "targets", "eventful"):
        assert np.array_equal(getattr(found[0], name), getattr(played, name))
