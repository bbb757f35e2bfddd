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

from waggle.scd.forward import decoder_of

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
    result = F.linear(states, base.weight, base.bias)
    if module.merged or module.disable_adapters:
        return result
    dtype = result.dtype
    down = module.lora_A["default"].weight.to(dtype)
    up = module.lora_B["default"].weight.to(dtype)
    inner = F.linear(module.lora_dropout["default"](states), down)
    flat = result.reshape(-1, result.shape[-1])
    small = inner.reshape(-1, inner.shape[-1])
    return torch.addmm(flat, small, up.t(), alpha=module.scaling["default"]).view(result.shape)


def compile_layers(model: Any) -> None:
    """Compile every layer of the backbone; only packed attention stays outside the graphs."""
    for layer in decoder_of(model).layers:
        layer.compile(dynamic=True)
