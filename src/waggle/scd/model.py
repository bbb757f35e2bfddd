"""The student: a backbone and its trained parameters (LoRA, target matrices, or all of them).

Trained weights are float32 and passes run under autocast, so that updates at a learning rate of
2e-6 are not lost in bfloat16 rounding. Invariant: `trainable` returns exactly the weights that a
checkpoint has to hold.
"""

from __future__ import annotations

import gc
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from waggle.core.errors import ConfigError
from waggle.models import load
from waggle.models.nano import nano, nano_tokenizer
from waggle.scd.config import Adaptation, Recipe
from waggle.scd.data.arrays import Rows
from waggle.scd.data.batches import groups
from waggle.scd.forward import attention, fused
from waggle.scd.forward.ragged import lay_out
from waggle.scd.forward.run import run


class FrozenOutput(NamedTuple):
    """The outputs of a frozen student for a set of records, in record order, on the CPU."""

    hidden: Tensor
    """Final local-view state of each record, (records, width), float32."""
    nll: Tensor
    """Sum of the token losses of each answer."""
    tokens: Tensor
    """Number of tokens in each answer."""


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
        attention.install(base)
        fused.install(base)
        if recipe.run.compile:
            fused.compile_layers(base)
        # A loaded backbone is in evaluation mode, new adapters are not: set both to training.
        self.model.train()
        self.width = int(base.config.hidden_size)

    def trainable(self) -> dict[str, nn.Parameter]:
        """Return the trained weights by name."""
        return {name: p for name, p in self.model.named_parameters() if p.requires_grad}

    def arithmetic(self) -> torch.autocast:
        """Return the autocast context of the recipe's dtype; weights are cast where used."""
        kind = torch.device(self.device).type
        return torch.autocast(kind, self.dtype, enabled=self.dtype != torch.float32)

    def read(self, rows: Rows) -> FrozenOutput:
        """Run the frozen student over the records, batching those of similar length."""
        self.model.eval()
        hidden = torch.zeros(len(rows), self.width)
        nll, tokens = torch.zeros(len(rows)), torch.zeros(len(rows))
        order = np.argsort(rows.inputs, kind="stable")
        with torch.no_grad(), self.arithmetic():
            for group in groups(rows.inputs[order], self.recipe.run.tokens_per_pass):
                some = rows.take(order[group])
                ragged = lay_out(some.ids, some.lengths, some.prompts, device=self.device)
                passed, where = run(self.model, ragged), torch.from_numpy(order[group])
                record, each = ragged.record.cpu(), passed.nll.float().cpu()
                hidden[where] = passed.hidden.float().cpu()
                nll[where] = torch.zeros(len(group)).index_add(0, record, each)
                tokens[where] = torch.from_numpy(some.lengths - some.prompts).float()
        return FrozenOutput(hidden, nll, tokens)


def free_memory() -> None:
    """Free the memory of unused models; loaded laws are frozen in the garbage collector."""
    gc.unfreeze()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def tokenizer_of(recipe: Recipe) -> Any:
    """Return the tokenizer of a recipe's backbone without loading its weights."""
    if recipe.backbone == "nano":
        return nano_tokenizer()
    return load.load_tokenizer(recipe.backbone)


def _backbone(recipe: Recipe, device: str) -> tuple[Any, Any]:
    name = recipe.backbone
    dtype = recipe.run.dtype if recipe.adaptation.kind == "lora" else "float32"
    if name == "nano":
        # Built anew: a copy in the cache may have been made with another tokenizer.
        model, tokenizer = nano()
        return model.to(device), tokenizer
    return load.load(name, device, dtype)


def _adapted(base: Any, adaptation: Adaptation, seed: int) -> Any:
    """Mark the trained parameters of a backbone, or add LoRA to it, and return the model.

    Raises:
        ConfigError: if the backbone has none of the target modules.
    """
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
    # LoRA's first factor is drawn from torch's generator; seed it so that arms can share it.
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed % 2**63)
        try:
            return get_peft_model(base, config)
        except ValueError as error:
            reason = str(error).splitlines()[0][:160]
            raise ConfigError(f"cannot put LoRA on the backbone ({reason}); set targets") from None
