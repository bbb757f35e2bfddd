"""Faster modules for training: fused norms, fused adapters, cheap dropout, compiled layers.

Values agree with the ordinary modules up to rounding and dropout draws. The savings are in memory
traffic and kernel launches, which take most of the time of a small backbone. Only modules of known
types are replaced.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from waggle.scd.forward.run import decoder_of

_NORMS = ("LlamaRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "MistralRMSNorm")
_SPREAD, _FIRST, _SECOND = -1640531527, -2048144789, -1028477387
"""Golden ratio, and the multipliers of a well-known 32-bit finalizer, as signed numbers."""
WORDS = 4
"""Random words per module: the first two are used; four keep every module's words aligned."""


def install(model: Any) -> None:
    """Replace norms and LoRA layers of a model by fused ones, in place."""
    for module in model.modules():
        if type(module).__name__ in _NORMS:
            module.forward = MethodType(_norm, module)
        elif is_plain_lora(module):
            module.forward = MethodType(_lora, module)


def compile_layers(model: Any) -> None:
    """Compile every layer of the backbone; compiled adapters use hashed dropout."""
    decoder = decoder_of(model)
    install_hashed_dropout(decoder, [m for m in model.modules() if is_plain_lora(m)])
    for layer in decoder.layers:
        layer.compile(dynamic=True)


def _norm(module: Any, states: Tensor) -> Tensor:
    """Return RMSNorm in one kernel; the sum of squares is taken in float32."""
    weight = module.weight.to(states.dtype)
    return F.rms_norm(states, weight.shape, weight, module.variance_epsilon)


def is_plain_lora(module: Any) -> bool:
    """Return whether a module is PEFT's LoRA on a linear layer, with no other option in use."""
    if type(module).__module__ != "peft.tuners.lora.layer" or type(module).__name__ != "Linear":
        return False
    return list(module.lora_A) == ["default"] and not getattr(module, "lora_variant", {})


def _lora(module: Any, states: Tensor, *_args: Any, **_kwargs: Any) -> Tensor:
    """Return W x + s B A drop(x), with the scaled sum folded into the last product."""
    base = module.base_layer
    if module.merged or module.disable_adapters:
        return F.linear(states, base.weight, base.bias)
    rows = states.reshape(-1, states.shape[-1])
    down = module.lora_A["default"].weight.to(states.dtype)
    words = getattr(module, "words", None)
    inner = F.linear(_drop(module.lora_dropout["default"], rows, words), down)
    # Autocast has chosen the dtype of this product; everything else uses the same.
    dtype, scaling = inner.dtype, module.scaling["default"]
    up, bias = module.lora_B["default"].weight.to(dtype), base.bias
    found: Tensor = _adapted(
        rows.to(dtype), base.weight.to(dtype), None if bias is None else bias.to(dtype), inner, up,
        scaling,
    )  # fmt: skip
    return found.view(*states.shape[:-1], -1)


@torch.library.custom_op("waggle::adapted", mutates_args=())
def _adapted(
    states: Tensor, weight: Tensor, bias: Tensor | None, inner: Tensor, up: Tensor, scaling: float
) -> Tensor:
    """Add an adapter's output to a frozen matrix's in place; a compiled sum would copy it first."""
    return F.linear(states, weight, bias).addmm_(inner, up.t(), alpha=scaling)


@_adapted.register_fake
def _(
    states: Tensor, weight: Tensor, bias: Tensor | None, inner: Tensor, up: Tensor, scaling: float
) -> Tensor:
    return states.new_empty(states.shape[0], weight.shape[0])


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, weight, _, inner, up, ctx.scaling = inputs
    ctx.save_for_backward(weight, inner, up)


def _adapted_back(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Return gradients of the input and of the adapter; a frozen matrix gets none."""
    weight, inner, up = ctx.saved_tensors
    states = gradient @ weight if ctx.needs_input_grad[0] else None
    small = (gradient @ up) * ctx.scaling
    return states, None, None, small, (gradient.t() @ inner) * ctx.scaling, None


_adapted.register_autograd(_adapted_back, setup_context=_remember)


def install_hashed_dropout(decoder: Any, modules: list[Any]) -> None:
    """Make adapters draw dropout from a hash of the position, seeded anew for every training pass.

    Adapters apply dropout to the inputs of every projection: billions of draws per update. A hash
    costs a tenth of the counter-based generator of a compiled dropout, and the backward pass
    computes it again instead of reading a mask. The words that seed a mask come from torch's
    generator, so torch's seed determines it.
    """

    def draw(_decoder: Any, _args: Any, _kwargs: Any) -> None:
        if decoder.training:
            device = next(decoder.parameters()).device
            shape = (len(modules), WORDS)
            words = torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32, device=device)
            for module, own in zip(modules, words, strict=True):
                module.words = own

    for module in modules:
        module.register_buffer("words", torch.zeros(WORDS, dtype=torch.int32), persistent=False)
    decoder.register_forward_pre_hook(draw, with_kwargs=True)


def _drop(module: nn.Module, states: Tensor, words: Tensor | None) -> Tensor:
    """Apply a module's dropout, with a hashed mask if there are `words`."""
    if words is None or not isinstance(module, nn.Dropout) or not module.training or not module.p:
        found: Tensor = module(states)
        return found
    return hashed_dropout(states, module.p, words)


def hashed_dropout(states: Tensor, share: float, words: Tensor) -> Tensor:
    """Drop a share of states (rows, width) and scale the others up; two words seed the mask.

    32-bit integers wrap around, and right shifts fill with the sign bit, which is masked off. A
    word is mixed in before the first product, since a compiler folds products of plain positions
    into constants that are too large.
    """
    rows, width = states.shape
    places = torch.arange(rows * width, dtype=torch.int32, device=states.device)
    mixed = (places ^ words[0]) * _SPREAD
    mixed = (mixed ^ ((mixed >> 16) & 0xFFFF)) * _FIRST
    mixed = (mixed ^ ((mixed >> 13) & 0x7FFFF) ^ words[1]) * _SECOND
    mixed = mixed ^ ((mixed >> 16) & 0xFFFF)
    kept = mixed.view(rows, width) >= round(share * 2**32) - 2**31
    return torch.where(kept, states * (1 / (1 - share)), 0.0)
