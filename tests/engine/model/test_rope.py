"""Rotations are those of transformers, with and without norms, however positions are computed."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm, apply_rotary_pos_emb

from tests.engine.helpers import rotation
from waggle.engine.model import rope


@pytest.mark.parametrize("normed", [True, False])
def test_queries_and_keys_are_rotated_as_transformers_does(normed: bool) -> None:
    heads, kv_heads, width = 6, 2, 16
    turns = rotation(heads, kv_heads, width, torch.float32, normed)
    positions = torch.tensor([0, 3, 200, 17])
    qkv = torch.randn(4, heads + 2 * kv_heads, width, generator=torch.Generator().manual_seed(2))
    q, k, v = torch.split(qkv, [heads, kv_heads, kv_heads], dim=1)
    if normed:
        for name, part in (("q", q), ("k", k)):
            norm = LlamaRMSNorm(width, 1e-6)
            norm.weight.data = getattr(turns, f"{name}_norm")
            part.copy_(norm(part).detach())
        turns = turns._replace(q_norm=None, k_norm=None)
        plain, turns = qkv.clone(), rotation(heads, kv_heads, width, torch.float32, True)
        qkv = torch.randn(4, heads + 2 * kv_heads, width,
                          generator=torch.Generator().manual_seed(2))  # fmt: skip
        q, k, v = torch.split(plain, [heads, kv_heads, kv_heads], dim=1)
    angles = positions[:, None] * (10_000.0 ** (-torch.arange(0, width, 2) / width))
    both = torch.cat((angles, angles), -1)[None]
    wanted = apply_rotary_pos_emb(
        q.transpose(0, 1)[None], k.transpose(0, 1)[None], both.cos(), both.sin()
    )
    found, kept = turns.at(positions).apply(qkv)
    torch.testing.assert_close(found, wanted[0][0].transpose(0, 1))
    torch.testing.assert_close(kept, torch.cat((wanted[1][0].transpose(0, 1), v), dim=1))


def test_models_without_a_module_have_the_positions_of_transformers(tiny: Any) -> None:
    model, _ = tiny
    config = SimpleNamespace(**vars(model.config))
    config.head_dim, config.rope_theta = model.config.head_dim, 10_000.0
    bare = SimpleNamespace(config=config, model=SimpleNamespace())
    embedding = model.model.embed_tokens.weight.detach()
    for dtype in (torch.float32, torch.bfloat16):
        one, other = (
            rope.tables(rope.rotary(each), 70, embedding.to(dtype)) for each in (model, bare)
        )
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
