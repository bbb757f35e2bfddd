"""Leaner arithmetic for training: fused norms, fused adapters, compiled layers.

Values agree with the ordinary modules up to rounding; what is saved is memory traffic and kernel
launches, which is most of the time of a small backbone. Only modules of known meaning are touched.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from waggle.scd.forward import hashed
from waggle.scd.forward.forward import decoder_of

_NORMS = ("LlamaRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "MistralRMSNorm")


def install(model: Any) -> None:
    """Replace norms and LoRA layers of a model by fused ones, in place."""
    for module in model.modules():
        if type(module).__name__ in _NORMS:
            module.forward = MethodType(_norm, module)
        elif _plain_lora(module):
            module.forward = MethodType(_lora, module)


def _norm(module: Any, states: Tensor) -> Tensor:
    """Return RMSNorm in one kernel; the sum of squares is taken in float32."""
    weight = module.weight.to(states.dtype)
    return F.rms_norm(states, weight.shape, weight, module.variance_epsilon)


def _plain_lora(module: Any) -> bool:
    """Whether a module is PEFT's LoRA on a linear layer, with nothing else switched on."""
    if type(module).__module__ != "peft.tuners.lora.layer" or type(module).__name__ != "Linear":
        return False
    return list(module.lora_A) == ["default"] and not getattr(module, "lora_variant", {})


def _lora(module: Any, states: Tensor, *_args: Any, **_kwargs: Any) -> Tensor:
    """Return W x + s B A drop(x), the scaled sum folded into the last product."""
    base = module.base_layer
    if module.merged or module.disable_adapters:
        return F.linear(states, base.weight, base.bias)
    flat = states.reshape(-1, states.shape[-1])
    down = module.lora_A["default"].weight.to(states.dtype)
    words = getattr(module, "words", None)
    inner = F.linear(hashed.drop(module.lora_dropout["default"], flat, words), down)
    # Autocast has chosen the arithmetic of this product; all of it is done in that.
    dtype, scaling = inner.dtype, module.scaling["default"]
    up, bias = module.lora_B["default"].weight.to(dtype), base.bias
    found: Tensor = _adapted(
        flat.to(dtype), base.weight.to(dtype), None if bias is None else bias.to(dtype), inner, up,
        scaling,
    )  # fmt: skip
    return found.view(*states.shape[:-1], -1)


@torch.library.custom_op("waggle::adapted", mutates_args=())
def _adapted(
    states: Tensor, weight: Tensor, bias: Tensor | None, inner: Tensor, up: Tensor, scaling: float
) -> Tensor:
    """Add an adapter's part to a frozen matrix's in place; a compiled sum would copy it first."""
    return F.linear(states, weight, bias).addmm_(inner, up.t(), alpha=scaling)


@_adapted.register_fake
def _(
    states: Tensor, weight: Tensor, bias: Tensor | None, inner: Tensor, up: Tensor, scaling: float
) -> Tensor:
    return states.new_empty(states.shape[0], weight.shape[0])


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, weight, _, inner, up, ctx.scaling = inputs
    ctx.save_for_backward(weight, inner, up)


def _back(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Return gradients of the input and of the adapter; a frozen matrix gets none."""
    weight, inner, up = ctx.saved_tensors
    states = gradient @ weight if ctx.needs_input_grad[0] else None
    small = (gradient @ up) * ctx.scaling
    return states, None, None, small, (gradient.t() @ inner) * ctx.scaling, None


_adapted.register_autograd(_back, setup_context=_remember)


def compile_layers(model: Any) -> None:
    """Compile every layer of the backbone; only packed attention stays outside the graphs."""
    hashed.install(decoder_of(model), [m for m in model.modules() if _plain_lora(m)])
    for layer in decoder_of(model).layers:
        layer.compile(dynamic=True)
