"""A Llama as an OpenVINO model that keeps its own cache, as OpenVINO GenAI wants it.

Inputs, outputs and states have the names and the form of exported language models, so that the
pipelines find the attention and can page its cache. Invariant: in float32 the greedy tokens are
those of the model it is made from.
"""

from __future__ import annotations

import logging
import shutil
from contextlib import redirect_stdout
from copy import deepcopy
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from waggle.models.quiet import quiet

FILE = "openvino_model.xml"


class Exported(nn.Module):
    """The forward pass of a transformers Llama, in operations that the pipelines recognise."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        config = model.config
        self.model = model
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.width = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.layers = config.num_hidden_layers

    def forward(
        self, ids: Tensor, attention_mask: Tensor, positions: Tensor, beam: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        """Return logits, and the keys and values of each layer with the new ones behind."""
        body = self.model.model
        x = body.embed_tokens(ids)
        angles = tuple(part.unsqueeze(1) for part in body.rotary_emb(x, positions))
        total, fresh = attention_mask.shape[1], ids.shape[1]
        reach = torch.arange(total).unsqueeze(0) <= torch.arange(total - fresh, total).unsqueeze(1)
        mask = reach[None, None] & attention_mask[:, None, None, :].bool()
        kept: list[Tensor] = []
        for index, block in enumerate(body.layers):
            old = past[2 * index : 2 * index + 2]
            seen, *new = self._attend(
                block, x, angles, [o.index_select(0, beam) for o in old], mask
            )
            x = x + seen
            x = x + block.mlp(block.post_attention_layernorm(x))
            kept += new
        return (self.model.lm_head(body.norm(x)), *kept)

    def _attend(
        self, block: Any, x: Tensor, angles: tuple[Tensor, ...], past: list[Tensor], mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        mixer, rows, fresh = block.self_attn, x.shape[0], x.shape[1]
        x = block.input_layernorm(x)
        parts = (mixer.q_proj(x), mixer.k_proj(x), mixer.v_proj(x))
        q, k, v = (part.view(rows, fresh, -1, self.width).transpose(1, 2) for part in parts)
        k = torch.cat((past[0], self._turned(k, *angles)), 2)
        v = torch.cat((past[1], v), 2)
        seen = F.scaled_dot_product_attention(
            self._turned(q, *angles), self._repeated(k), self._repeated(v), attn_mask=mask
        )
        return mixer.o_proj(seen.transpose(1, 2).reshape(rows, fresh, -1)), k, v

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = self.width // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    def _repeated(self, x: Tensor) -> Tensor:
        rows, heads, length, width = x.shape
        each = self.heads // self.kv_heads
        x = x[:, :, None, :, :].expand(rows, heads, each, length, width)
        return x.reshape(rows, heads * each, length, width)


def compress(source: Path, folder: Path) -> Path:
    """Write what lies in one folder to another one, with weights in int8."""
    ov: Any = import_module("openvino")
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("openvino_model.*"))
    ov.save_model(_compressed(ov.Core().read_model(source / FILE)), folder / FILE)
    return folder


def export(model: Any, tokenizer: Any, folder: Path) -> Path:
    """Write a model in float32 and its tokenizer into a folder."""
    ov: Any = import_module("openvino")
    tokenizers: Any = import_module("openvino_tokenizers")
    folder.mkdir(parents=True, exist_ok=True)
    with quiet(), torch.inference_mode():
        wide = model if model.dtype == torch.float32 else deepcopy(model).float()
        made = _stateful(Exported(wide))
        parts = tokenizers.convert_tokenizer(tokenizer, with_detokenizer=True)
    ov.save_model(made, folder / FILE, compress_to_fp16=False)
    for part, name in zip(parts, ("tokenizer", "detokenizer"), strict=True):
        ov.save_model(part, folder / f"openvino_{name}.xml")
    model.config.save_pretrained(folder)
    return folder


def _compressed(made: Any) -> Any:
    """Return a model with eight bits a weight and a scale per channel, and no word about it."""
    nncf: Any = import_module("nncf")
    nncf.set_log_level(logging.ERROR)
    with redirect_stdout(StringIO()):
        return nncf.compress_weights(made)


def _stateful(module: Exported) -> Any:
    """Trace a model, name its inputs and outputs, and turn its cache into states."""
    ov: Any = import_module("openvino")
    passes: Any = import_module("openvino.passes")
    made = ov.convert_model(module, example_input=_example(module))
    sides = [f"{i}.{side}" for i in range(module.layers) for side in ("key", "value")]
    past, present = (
        [f"{word}.{side}" for side in sides] for word in ("past_key_values", "present")
    )
    inputs = ["input_ids", "attention_mask", "position_ids", "beam_idx", *past]
    cache = [-1, module.kv_heads, -1, module.width]
    shapes = [[-1, -1]] * 3 + [[-1]] + [cache] * len(past)
    for port, name, shape in zip(made.inputs, inputs, shapes, strict=True):
        port.get_tensor().set_names({name})
        port.get_node().set_friendly_name(name)  # by which the pipelines look for it
        port.get_node().set_partial_shape(ov.PartialShape(shape))
    for port, name in zip(made.outputs, ["logits", *present], strict=True):
        port.get_tensor().set_names({name})
    made.validate_nodes_and_infer_types()
    manager = passes.Manager()
    manager.register_pass(passes.MakeStateful(dict(zip(past, present, strict=True))))
    manager.run_passes(made)
    _begin_empty(made, module)
    return made


def _example(module: Exported, rows: int = 2, fresh: int = 3, old: int = 4) -> tuple[Tensor, ...]:
    ones = torch.ones(rows, fresh + old, dtype=torch.long)
    past = [torch.zeros(rows, module.kv_heads, old, module.width)] * (2 * module.layers)
    places = torch.arange(old, old + fresh).repeat(rows, 1)
    return (ones[:, :fresh], ones, places, torch.arange(rows, dtype=torch.int32), *past)


def _begin_empty(made: Any, module: Exported) -> None:
    """Let every state begin with no positions and as many rows as there are prompts."""
    ops: Any = import_module("openvino.opset13")
    np: Any = import_module("numpy")

    def whole(values: Any) -> Any:
        return ops.constant(values, dtype=np.int64)

    sizes = ops.shape_of(made.input("input_ids"), output_type="i64")
    rows = ops.gather(sizes, whole([0]), whole(0))
    shape = ops.concat([rows, whole([module.kv_heads]), whole([0]), whole([module.width])], 0)
    empty = ops.broadcast(ops.constant(0.0, dtype=np.float32), shape)
    for node in made.get_ops():
        if node.get_type_name() == "ReadValue":
            node.set_arguments([empty.output(0)])
    made.validate_nodes_and_infer_types()
