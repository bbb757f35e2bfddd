"""Beginnings that some sequences share: keys are whole sequences, gradients sums over copies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from waggle.scd.data.arrays import spans
from waggle.scd.forward import prefix_tree as module
from waggle.scd.forward.prefix_tree import SharedKeys, common_prefix, join_keys, prefix_tree


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=7))
def test_the_keys_of_every_sequence_are_its_tokens(sequences: list[list[int]]) -> None:
    ids = np.array([token for one in sequences for token in one])
    inputs = np.array([len(one) for one in sequences])
    starts = np.cumsum(inputs) - inputs
    found = prefix_tree(ids, starts, inputs, inputs - 1)
    assert (found.skip < inputs).all(), "the last token is never borrowed"
    tokens = ids[spans(starts + found.skip, inputs - found.skip)]
    keys = join_keys(found, inputs - found.skip)
    assert tokens[keys.keys].tolist() == ids.tolist()
    assert keys.bounds.tolist() == [0, *np.cumsum(inputs).tolist()]
    assert keys.keys[keys.own].tolist() == list(range(len(tokens)))
    every = np.concatenate((keys.own, keys.copies))
    assert sorted(every.tolist()) == list(range(len(ids)))
    assert (keys.keys[keys.copies] == np.repeat(keys.shared, np.diff(keys.ends))).all()


def test_what_one_other_sequence_has_is_computed_once() -> None:
    sequences = [[5, 6, 7, 1], [5, 9, 9, 2], [5, 6, 7, 3], [5, 6, 8, 4]]
    inputs = np.array([4, 4, 4, 4])
    found = prefix_tree(np.concatenate(sequences), np.arange(0, 16, 4), inputs, inputs - 1)
    assert found.order.tolist() == [0, 2, 3, 1] and found.skip.tolist() == [0, 1, 3, 2]


@pytest.mark.parametrize("ordered", [True, False])
def test_the_gradient_of_a_row_is_the_sum_over_its_copies(
    monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    assert module._sums_in_order("cpu")
    monkeypatch.setattr(module, "_sums_in_order", lambda _kind: ordered)
    drawn = np.random.Generator(np.random.PCG64(0))
    rows = [np.concatenate(([1] * 5, [i % 2] * 3, drawn.integers(0, 9, 4))) for i in range(6)]
    inputs = np.array([12] * 6)
    found = prefix_tree(np.concatenate(rows), np.arange(0, 72, 12), inputs, inputs - 1)
    joined = join_keys(found, inputs - found.skip)
    tree = SharedKeys(*(torch.from_numpy(column) for column in joined))
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(len(tree.own), 2, 4, generator=generator).requires_grad_()
    given_ = torch.randn(len(tree.keys), 2, 4, generator=generator)
    (one,) = torch.autograd.grad(tree.spread(states), states, given_)
    (other,) = torch.autograd.grad(states.index_select(0, tree.keys), states, given_)
    assert torch.equal(tree.spread(states), states.index_select(0, tree.keys))
    torch.testing.assert_close(one, other)


def test_a_common_prefix_is_borrowed_from_the_first_sequence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "COMMON", (6, 4))
    ids = np.array([[1] * 11 + [i] for i in range(4)]).ravel()
    starts = np.arange(0, 48, 12)
    found = common_prefix(ids, starts, 11)
    assert found is not None and found.skip.tolist() == [0, 8, 8, 8]
    keys = join_keys(found, 12 - found.skip)
    tokens = ids[spans(starts + found.skip, 12 - found.skip)]
    assert tokens[keys.keys].tolist() == ids.tolist() and len(keys.shared) == 8
    assert common_prefix(ids, starts, 5) is None
    assert common_prefix(ids, starts[:1], 11) is None
    assert common_prefix(np.arange(48), starts, 11) is None
