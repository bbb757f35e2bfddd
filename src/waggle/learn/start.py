"""The starting law of a run: its weights for training, and the same weights for playing.

A small law is trained in full. A large backbone is trained with an adapter: that of the starting
law, or a new one. A player needs plain weights, so adapters are merged into the model for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.order import Order
from waggle.core.seeds import derive
from waggle.laws.local import LocalLaw
from waggle.laws.shipped import is_folder, of_folder
from waggle.learn.config import SCRATCH, Machine, Settings
from waggle.models import adapters, load
from waggle.models.fetch import path
from waggle.models.nano import nano
from waggle.scd.config import Adaptation, Recipe, Run
from waggle.scd.model import Student


class Start(NamedTuple):
    """Where the weights of a run come from."""

    name: str
    backbone: str
    adapter: str | None
    order: Order
    teacher: str
    origin: str
    """The backbone as tables name it."""

    @property
    def folder(self) -> str:
        """The folder of the law; of an untrained start, the name of the backbone."""
        return self.adapter or self.backbone


def find_start(settings: Settings) -> Start:
    """Return the law that a run begins with.

    Raises:
        ConfigError: for a law that has no weights to train.
    """
    name = settings.start
    if name == SCRATCH:
        return Start(name, settings.backbone, None, settings.order, "none", settings.backbone)
    law = of_folder(Path(name)) if is_folder(name) else plugins.get_law(name)
    if not isinstance(law, LocalLaw):
        raise ConfigError(
            f"law {name!r} has no weights to train; start from nano, a law's folder or {SCRATCH}"
        )
    return Start(name, *law.weights, law.order, law.teacher, law.backbone)


def precision(machine: Machine) -> Literal["bfloat16", "float32"]:
    """Resolve `auto` to bfloat16 on a GPU, else float32.

    One rule for playing and training: if they rounded differently, training would compute another
    probability than a choice was sampled with.
    """
    if machine.dtype != "auto":
        return machine.dtype
    return "bfloat16" if load.pick_device(machine.device).startswith("cuda") else "float32"


def open_model(start: Start, device: str, dtype: str) -> tuple[Any, Any]:
    """Return the plain model and the tokenizer of a start, for playing."""
    if start.backbone == "nano" and start.name == SCRATCH:
        model, tokenizer = nano()
        where = load.pick_device(device)
        return model.to(where, load.pick_dtype(dtype, where)), tokenizer
    return load.load(start.backbone, device, dtype, start.adapter)


def open_student(start: Start, settings: Settings, seed: int) -> Student:
    """Return the model of a start, for training."""
    machine = settings.machine
    where = load.pick_device(machine.device)
    recipe = Recipe(
        name=settings.name,
        backbone=start.backbone,
        order=start.order,
        adaptation=_adaptation(start, settings),
        run=Run(
            device=where, dtype=precision(machine),
            tokens_per_pass=machine.tokens_per_pass, tracker=machine.tracker,
            compile=machine.compile,
        ),
    )  # fmt: skip
    student = Student(recipe, derive(seed, "adapter"))
    if start.adapter is not None:
        weights = adapters.read(Path(start.adapter))
        adapters.fill(student.model, {n: w.float() for n, w in weights.items()}, start.adapter)
    return student


def _adaptation(start: Start, settings: Settings) -> Adaptation:
    """Choose what is trained: everything, the adapter of the start, or a new one."""
    if start.adapter is not None:
        said = json.loads((Path(start.adapter) / adapters.CONFIG).read_text("utf-8"))
        return Adaptation(  # PEFT's defaults for values that the adapter omits
            rank=said.get("r", 8), alpha=said.get("lora_alpha", 8),
            rslora=said.get("use_rslora", False), dropout=0.0,
            targets=tuple(sorted(said["target_modules"])),
        )  # fmt: skip
    if (
        start.backbone in ("nano", "tiny-random")
        or _weights_of(start.backbone) <= settings.adapter.above
    ):
        return Adaptation(kind="full")
    return Adaptation(rank=settings.adapter.rank, alpha=settings.adapter.alpha, dropout=0.0)


def _weights_of(backbone: str) -> int:
    """Estimate the number of weights of a model from its file sizes, two bytes per weight."""
    files = path(backbone).glob("*.safetensors")
    return sum(file.stat().st_size for file in files) // 2


def plain_weights(student: Student) -> dict[str, Tensor]:
    """Return the trained weights by the names of the plain model, adapters merged in."""
    if student.recipe.adaptation.kind != "lora":
        return {name: weight.detach() for name, weight in student.trainable().items()}
    found = {}
    for name, module in student.model.get_base_model().named_modules():
        if hasattr(module, "get_delta_weight"):
            with torch.no_grad():
                delta = module.get_delta_weight("default")
            found[f"{name}.weight"] = module.base_layer.weight.detach() + delta.to(
                module.base_layer.weight.dtype
            )
    return found


def put_weights(model: Any, weights: Mapping[str, Tensor]) -> None:
    """Copy plain weights into a model, in the model's precision."""
    own = dict(model.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            own[name].copy_(weight)
