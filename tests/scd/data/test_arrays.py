"""Encoded records as arrays: rows that are taken and stacked are those of the records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.scd.oracle import sequences
from tests.scd.runs import encoded
from waggle.scd.data import arrays


def test_rows_are_taken_in_the_order_given_and_stacked(corpus: Path, tmp_path: Path) -> None:
    with encoded(tmp_path, corpus) as some:
        rows = some.transitions("train")
    index = np.array([5, 0, 3])
    taken = rows.take(index)
    assert sequences(taken) == [sequences(rows)[i] for i in index]
    assert taken.eventful.tolist() == rows.eventful[index].tolist()
    both = arrays.stack([rows.take(index[:1]), rows.take(index[1:])]).columns()
    assert all(np.array_equal(both[name], column) for name, column in taken.columns().items())


def test_the_model_reads_all_but_the_last_token_of_an_answer() -> None:
    coded = [arrays.Encoded([1, 2, 3], [4, 5]), arrays.Encoded([6, 7], [])]
    rows = arrays.from_encoded(coded, [[0], [1]])
    assert rows.inputs.tolist() == [4, 2] and rows.starts.tolist() == [0, 5]
    assert sequences(rows) == coded
