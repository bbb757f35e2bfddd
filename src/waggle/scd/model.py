"""The student: a backbone with what of it is trained (LoRA, target matrices, or everything).

Trained weights are float32 and arithmetic is autocast, so that a learning rate of 2e-6 is not lost
in bfloat16 rounding. Invariant: `trainable` is exactly what a checkpoint has to hold.
"""

from __future__ import annotations

import gc
import warnings
from importlib import import_module
from typing import Any

import torch
from torch import nn

from waggle.core.errors import ConfigError
from waggle.models import fetch, load
from waggle.models.nano import nano, nano_tokenizer
from waggle.scd.config import Adaptation, Recipe
from waggle.scd.forward import lean, packing

SHAPES: dict[str, dict[str, Any]] = {
    "qwen3-4b-shape": {
        "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "tie_word_embeddings": True, "max_position_embeddings": 40_960,
    },
    "smollm2-135m-shape": {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
        "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
        "tie_word_embeddings": True, "max_position_embeddings": 8_192,
    },
}  # fmt: skip
"""Backbones with random weights, for measurements of speed only."""
_VOCABULARY = {"qwen3-4b-shape": 151_936, "smollm2-135m-shape": 49_152}


class Student:
    """A backbone prepared for training."""

    def __init__(self, recipe: Recipe, seed: int, device: str | None = None) -> None:
        self.recipe = recipe
        self.device = load.pick_device(device or recipe.run.device)
        self.dtype = getattr(torch, recipe.run.dtype)
        base, self.tokenizer = _backbone(recipe, self.device)
        self.model = _adapted(base, recipe.adaptation, seed)
        if recipe.run.checkpointing:
            base.gradient_checkpointing_enable()
            base.enable_input_require_grads()
        packing.install(base)
        lean.install(base)
        if recipe.run.compile:
            lean.compile_layers(base)
        # A loaded backbone is in evaluation mode and new adapters are not: all of it trains.
        self.model.train()
        self.width = int(base.config.hidden_size)

    def trainable(self) -> dict[str, nn.Parameter]:
        """Return the trained weights by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def arithmetic(self) -> torch.autocast:
        """Run in the recipe's arithmetic; weights are cast where they are used."""
        kind = torch.device(self.device).type
        return torch.autocast(kind, self.dtype, enabled=self.dtype != torch.float32)


def collect() -> None:
    """Give back the memory of models that nobody uses; a loaded law is kept from collection."""
    gc.unfreeze()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _backbone(recipe: Recipe, device: str) -> tuple[Any, Any]:
    name = recipe.backbone
    dtype = recipe.run.dtype if recipe.adaptation.kind == "lora" else "float32"
    if name in SHAPES:
        return _random_shape(name, device, dtype), _measuring_tokenizer()
    if name == "nano":
        # Made afresh: a copy in the cache may be of another tokenizer.
        model, tokenizer = nano()
        return model.to(device), tokenizer
    return load.load(name, device, dtype)


def tokenizer_of(recipe: Recipe) -> Any:
    """Return the tokenizer of a recipe's backbone without loading its weights."""
    from transformers import AutoTokenizer

    if recipe.backbone == "nano":
        return nano_tokenizer()
    if recipe.backbone in SHAPES:
        return _measuring_tokenizer()
    return AutoTokenizer.from_pretrained(str(fetch.path(recipe.backbone)))


def _random_shape(name: str, device: str, dtype: str) -> Any:
    """Build a backbone of a known shape with random weights, on the device at once."""
    library: Any = import_module("transformers")
    kind = library.Qwen3Config if name.startswith("qwen3") else library.LlamaConfig
    config = kind(vocab_size=_VOCABULARY[name], **SHAPES[name])
    # The same weights in every call: a stage that is measured in parts goes on with them.
    with torch.random.fork_rng(), torch.device(device), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return library.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))


def _measuring_tokenizer() -> Any:
    """Return the tokenizer of the pretrained default if it is here, else that of `nano`.

    Token counts stay close to those of the real backbones; values do not matter for speed.
    """
    from transformers import AutoTokenizer

    try:
        folder = fetch.path("smollm2-135m-instruct")
    except ConfigError:
        folder = fetch.path("nano")
    return AutoTokenizer.from_pretrained(str(folder))


def _adapted(base: Any, adaptation: Adaptation, seed: int) -> Any:
    if adaptation.kind == "lora":
        return _with_lora(base, adaptation, seed)
    found = False
    for name, parameter in base.named_parameters():
        chosen = adaptation.kind == "full" or name.split(".")[-2] in adaptation.targets
        parameter.requires_grad_(chosen)
        found |= chosen
    if not found:
        raise ConfigError(f"no module of the backbone is named {adaptation.targets}; set targets")
    return base


def _with_lora(base: Any, adaptation: Adaptation, seed: int) -> Any:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=adaptation.rank,
        lora_alpha=adaptation.alpha,
        lora_dropout=adaptation.dropout,
        use_rslora=adaptation.rslora,
        target_modules=list(adaptation.targets),
        bias="none",
        task_type="CAUSAL_LM",
    )
    # LoRA's first factor is drawn from torch's generator: name it, so that arms can share it.
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed % 2**63)
        try:
            return get_peft_model(base, config)
        except ValueError as error:
            reason = str(error).splitlines()[0][:160]
            raise ConfigError(f"cannot put LoRA on the backbone ({reason}); set targets") from None
