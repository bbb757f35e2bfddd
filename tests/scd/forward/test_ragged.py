"""Ragged batches: every sequence gets what it gets alone, with filler and shared tokens too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.scd.oracle import alone
from waggle.core.errors import ConfigError
from waggle.models.nano import tiny_random
from waggle.scd.data.arrays import Encoded, from_encoded
from waggle.scd.forward import attention, prefix_tree
from waggle.scd.forward.ragged import Ragged, few_sizes, lay_out
from waggle.scd.forward.run import run

HEAD = list(range(10, 60))
SOME = [Encoded(HEAD + list(range(70, 70 + k)), list(range(100, 105 + k))) for k in (3, 9, 20)]


def ragged(some: list[Encoded], **how: Any) -> Ragged:
    rows = from_encoded(some, [[] for _ in some])
    return lay_out(rows.ids, rows.lengths, rows.prompts, device="cpu", **how)


@pytest.mark.parametrize("shared", ["nothing", "prefix", "tree"])
def test_every_sequence_gets_what_it_gets_alone(
    monkeypatch: pytest.MonkeyPatch, shared: str
) -> None:
    monkeypatch.setattr(prefix_tree, "COMMON", (2 if shared == "prefix" else 10_000, 1))
    model, _ = tiny_random()
    known = [alone(model, one) for one in SOME]
    attention.install(model)
    batch = ragged([*SOME, Encoded(HEAD)], tree=shared == "tree")
    found = run(model, batch)
    read = sum(len(one.prompt) + len(one.answer) - 1 for one in SOME) + 50
    # Of the prompt that ends with what all share, the last token is still computed.
    spared = {"nothing": 0, "prefix": 3 * 49, "tree": 50 + 58 + 52}[shared]
    assert (batch.read, batch.size, batch.filled) == (read, read - spared, read - spared)
    for i, (hidden, nll) in enumerate(known):
        torch.testing.assert_close(found.hidden[i], hidden, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found.nll[batch.record == i], nll, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.hidden[3], alone_state(HEAD), atol=1e-5, rtol=1e-5)


def alone_state(prompt: list[int]) -> torch.Tensor:
    model, _ = tiny_random()
    found = model(input_ids=torch.tensor([prompt]), output_hidden_states=True)
    state: torch.Tensor = found.hidden_states[-1][0, -1]
    return state


@pytest.mark.parametrize("shared", ["nothing", "prefix"])
def test_sliding_windows_are_kept(monkeypatch: pytest.MonkeyPatch, shared: str) -> None:
    monkeypatch.setattr(prefix_tree, "COMMON", (2 if shared == "prefix" else 10_000, 1))
    generator = torch.Generator().manual_seed(0)
    batch = ragged([Encoded(HEAD), Encoded(HEAD[:40] + [7] * 3)])
    whole = [torch.randn(1, 2, n, 8, generator=generator) for n in (50, 43)]
    whole[1][:, :, :40] = whole[0][:, :, :40]
    skip = 0 if batch.shared is None else 40
    assert (skip == 40) == (shared == "prefix")
    row = torch.cat([whole[0], whole[1][:, :, skip:]], 2)
    for window in (4, 45, None):
        found, _ = attention.attention(
            None, row, row, row, None, ragged=batch, sliding_window=window
        )
        for states, own in zip(whole, (found[0, :50], found[0, 50:]), strict=True):
            count = states.shape[2]
            mask = torch.ones(count, count, dtype=torch.bool).tril()
            if window:
                mask &= ~torch.ones(count, count, dtype=torch.bool).tril(-window)
            wanted = torch.nn.functional.scaled_dot_product_attention(
                states, states, states, attn_mask=mask
            )[0].transpose(0, 1)
            torch.testing.assert_close(own, wanted[-len(own) :], atol=1e-5, rtol=1e-4)


def test_what_training_cannot_compute_is_one_line() -> None:
    states = torch.zeros(1, 1, 3, 4)
    with pytest.raises(ConfigError, match="choose another backbone"):
        attention.attention(None, states, states, states, None, ragged=None)


def test_filler_changes_no_loss() -> None:
    model, _ = tiny_random()
    attention.install(model)
    plain, filled = ragged(SOME), ragged(SOME, fixed=True)
    known = filled.record < 3
    assert int(known.sum()) == len(plain.where) < len(filled.where)
    assert bool((filled.record[~known] == 3).all())
    with torch.no_grad():
        torch.testing.assert_close(run(model, plain).nll, run(model, filled).nll[known])


@pytest.mark.parametrize(
    ("size", "bits", "wanted"),
    [(1, 4, 1), (17, 4, 17), (33, 4, 34), (24_000, 4, 24_576), (900, 0, 1024), (0, 3, 1)],
)
def test_sizes_are_few_and_never_smaller(size: int, bits: int, wanted: int) -> None:
    assert few_sizes(size, bits) == wanted


def test_the_row_of_a_gpu_has_few_sizes_and_its_filler_is_a_sequence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "waggle.scd.forward.ragged.to_device", lambda values, _device: torch.from_numpy(values)
    )
    rows = from_encoded(SOME, [[] for _ in SOME])
    batch = lay_out(rows.ids, rows.lengths, rows.prompts, device="cuda")
    assert batch.size == few_sizes(batch.filled + 1, 4) and batch.longest == 2048
    assert len(batch.bounds) == 5 and int(batch.bounds[-1]) == batch.size
    assert batch.positions[0, batch.filled :].tolist() == list(range(batch.size - batch.filled))


def test_the_shared_prefix_never_swallows_a_whole_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_tree, "COMMON", (2, 1))
    batch = ragged([Encoded(HEAD[:40]), Encoded(HEAD[:40])])
    assert batch.size == 41 and np.array_equal(batch.last, [39, 40])
