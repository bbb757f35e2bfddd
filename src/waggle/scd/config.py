"""Recipes: all settings of a training run, as one TOML file (Table "SCD configuration").

Defaults are the paper's values; docstrings mark those that the paper does not give. Unknown keys
are errors, so that a typo cannot silently change the training.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from waggle.core.errors import ConfigError
from waggle.core.order import Order
from waggle.corpus.settings import (
    CorpusSettings,
    HarvestSettings,
    TransitionSettings,
    one_line,
)

Arm: TypeAlias = Literal["decision", "orbit", "field", "scd"]
ARMS: tuple[Arm, ...] = ("decision", "orbit", "field", "scd")
Positive = Annotated[int, Field(ge=1, le=1_000_000)]
Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
_FORMER = {
    "run": {"flat"},
    "stage_one": {"augment"},
    "corpus": {"scale", "linked"},
    "harvest": {"orders", "linked", "crowded", "poised", "eased", "relays", "agreed"},
}
"""Removed settings, by section, that the recipes of older laws may still contain."""
_HARVESTED = ("native", "synthetic", "disguised", "close", "ports", "far", "near")
"""Kinds of views of a token corpus."""
_OF_OTHER_KINDS = ("trajectories",)
"""TOML tables of other kinds of recipes, such as those of Agent Distillation."""
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class Adaptation(_Settings):
    """Which parameters of the backbone are trained, and how they are shipped."""

    kind: Literal["lora", "dense", "full"] = "lora"
    """`lora`: an adapter; `dense`: the target matrices themselves, shipped as a low-rank
    difference; `full`: all weights, shipped in full."""
    rank: Positive = 32
    """Rank of the adapter (for `dense`: of the shipped factorisation)."""
    alpha: Positive = 64
    """LoRA alpha."""
    rslora: bool = False
    """Scale by alpha over the square root of the rank."""
    dropout: Share = 0.05
    """LoRA dropout."""
    targets: tuple[str, ...] = MODULES
    """Names of the trained projections."""


class Stage(_Settings):
    """The settings that both stages have: length, batch size and learning rate."""

    updates: Positive = 648
    """Number of optimizer updates; the maximum number if `seconds` is set."""
    seconds: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Time budget: the stage ends when it is spent, and the learning-rate schedule follows the
    fraction spent of the time or of the updates, whichever is larger. The clock starts after the
    first update, which may compile. Without a budget the stage is a pure function of its seed."""
    batch: Positive = 16
    """Decision records per update."""
    rate: Rate = 2e-6
    """Learning rate of the adapter (or of the weights)."""
    weight_decay: Share = 0.01
    """AdamW weight decay."""
    clip: Annotated[float, Field(gt=0)] = 1.0
    """Maximum gradient norm, for backbone and heads separately; not given in the paper."""
    rate_warm_up: Annotated[int, Field(ge=0)] = 0
    """Number of learning-rate warm-up updates; not given in the paper."""
    decay: Literal["constant", "cosine"] = "constant"
    """Learning-rate schedule after the warm-up; not given in the paper."""


class StageOne(Stage):
    """The decision-supervised warm start. The paper gives no schedule; the defaults are ours."""

    updates: Positive = 864
    rate: Rate = 1e-4
    rate_warm_up: Annotated[int, Field(ge=0)] = 40
    decay: Literal["constant", "cosine"] = "cosine"


class StageTwo(Stage):
    """Interleaved decision and transition minibatches under Eq. scd."""

    transition_batch: Positive = 22
    """Transitions per update; 648 updates are one pass over 14,256."""
    head_rate: Rate = 5e-4
    """Learning rate of the auxiliary heads."""
    lambda_orbit: Annotated[float, Field(ge=0)] = 0.05
    """Weight of the orbit loss."""
    lambda_field: Annotated[float, Field(ge=0)] = 0.05
    """Weight of the field loss."""
    lambda_state: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the state group within the field loss."""
    beta: Annotated[float, Field(ge=0)] = 0.10
    """Weight of the symmetric KL within the orbit loss."""
    warm_up: Annotated[int, Field(ge=0)] = 8
    """Number of first updates in which the auxiliary losses have weight zero."""
    ramp: Annotated[int, Field(ge=0)] = 32
    """Number of updates over which their weights then rise."""


class Run(_Settings):
    """Machine settings; they change the learned weights by rounding and dropout draws alone.

    Compiled adapters draw dropout from a hash of the position, and tokens that are computed once
    have the same dropout in all sequences that share them. The validation settings determine which
    update is selected.
    """

    device: str = "auto"
    """`auto`, `cpu`, `cuda`, or a torch device."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Arithmetic of the backbone; trained weights are always kept in float32."""
    tokens_per_pass: Positive = 12_288
    """Tokens per forward pass; lower it if memory runs out."""
    checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more arithmetic."""
    compile: bool = False
    """Compile the layers of the backbone: up to a minute or two at the start, faster updates."""
    compile_arms: bool = False
    """With `compile`: compile also in the processes of `--arm all`, each of which trains several
    arms. Worthwhile if an arm takes minutes."""
    evaluate_every: Positive = 72
    """Updates between two measurements of validation loss."""
    validation_records: Positive = 800
    """Number of validation records used."""
    log_every: Positive = 1
    """Updates between two log entries; each makes the CPU wait for the GPU."""
    tree: bool = False
    """Compute once not only the prefix common to all sequences but also those of some: an orbit
    pair shares its contract, records of a task share its text. For large backbones; off under
    `capture`."""
    capture: bool = False
    """On a GPU: replay updates whose shape has occurred before as one CUDA graph."""
    save_every: Positive = 72
    """Updates between two checkpoints."""
    tracker: str = "none"
    """A tracker in addition to `metrics.jsonl`: `none`, `tensorboard`, `trackio` or `wandb`."""

    def fixed(self) -> dict[str, Any]:
        """Return the settings that a resumed run must keep: dtype and validation settings."""
        return self.model_dump(include={"dtype", "evaluate_every", "validation_records"})


class Recipe(_Settings):
    """The settings of a training run."""

    name: str = "run"
    """Name of the run."""
    backbone: str = "qwen3-4b-instruct-2507"
    """A model of `waggle models list`, a Hugging Face id, or a folder."""
    order: Order = "shuffled"
    """Canon order: `shuffled`, as in the paper, or `canonical`, where an orbit pair is one text."""
    max_context: Positive = 16_384
    """Decision records with more tokens, prompt and answer together, are left out."""
    reduction: Literal["mean", "sum"] = "mean"
    """Token loss of a record: the mean over its tokens, which is the scale of the reported NLL, or
    their sum, as Eq. token-loss is written."""
    corpus: CorpusSettings = CorpusSettings()
    harvest: HarvestSettings = HarvestSettings()
    """A token corpus for stage one. In shuffled order every other view gets fresh names and row
    order, and the rest keep theirs; with `as_seen` each orbit gives one view, as it was seen."""
    transitions: TransitionSettings = TransitionSettings()
    adaptation: Adaptation = Adaptation()
    stage_one: StageOne = StageOne()
    stage_two: StageTwo = StageTwo()
    run: Run = Run()

    def source(self) -> str:
        """Return a short description of the training data."""
        return f"{self.corpus.bundles} bundles, {self.corpus.native} native"

    def harvested(self) -> str:
        """Describe the token corpus of stage one; empty if it reads the decision corpus."""
        if not (self.harvest.native or self.harvest.synthetic):
            return ""
        counts = {kind: getattr(self.harvest, kind) for kind in _HARVESTED}
        return ", ".join(f"{count:,} {kind} views" for kind, count in counts.items() if count)

    def uncompiled(self) -> Recipe:
        """Return the recipe without compilation, for work too short to benefit from it."""
        return self.model_copy(update={"run": self.run.model_copy(update={"compile": False})})


R = TypeVar("R", bound=Recipe)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises:
        ConfigError: with one line that names the file, the key and the problem.
    """
    return read_recipe_of(path, Recipe)


def read_recipe_of(path: Path, kind: type[R]) -> R:
    """Read a recipe as an instance of `kind`; its key `extends` names a recipe to override.

    Raises:
        ConfigError: with one line that names the file, the key and the problem.
    """
    data = _read(path)
    if (base := data.pop("extends", None)) is not None:
        data = _changed(_read(path.parent / str(base)), data)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise one_line(error, f"recipe {path}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise ConfigError(
            f"cannot read recipe {path} ({reason}); name a recipe file, as in recipes/"
        ) from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"recipe {path} is not TOML ({error})") from None
    if not {"methods", "methods_from"}.isdisjoint(data):
        raise ConfigError(f"{path} is a recipe of evaluation; use `waggle eval {path}`")
    if "credit" in data:
        raise ConfigError(f"{path} is a recipe of learning; use `waggle learn TASK {path}`")
    return data


def _changed(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the base settings overridden by `own`; tables are merged key by key."""
    parts = {
        key: base[key] | value
        for key, value in own.items()
        if isinstance(value, dict) and isinstance(base.get(key), dict)
    }
    return base | own | parts


def recipe_of_law(data: dict[str, Any]) -> Recipe:
    """Return the recipe stored with a trained law, without removed settings and foreign tables."""
    parts = {
        part: {key: value for key, value in data[part].items() if key not in former}
        for part, former in _FORMER.items()
        if isinstance(data.get(part), dict)
    }
    kept = {name: value for name, value in data.items() if name not in _OF_OTHER_KINDS}
    return Recipe.model_validate(kept | parts)


def weights(stage: StageTwo, arm: str) -> tuple[float, float]:
    """Return the orbit and field weights of an arm; a disabled loss has weight zero."""
    orbit = stage.lambda_orbit if arm in ("orbit", "scd") else 0.0
    field = stage.lambda_field if arm in ("field", "scd") else 0.0
    return orbit, field


def terms(order: Order, stage: StageTwo, arm: str) -> list[str]:
    """Return the terms of an arm that teach more than imitation: `orbit`, `field`.

    In canonical order both views of an orbit pair are the same text. The consistency part of the
    orbit term is then zero, and the rest imitates the same record and its summary once more.
    """
    orbit, field = weights(stage, arm)
    active = {"orbit": orbit > 0 and order == "shuffled", "field": field > 0}
    return [name for name, is_active in active.items() if is_active]


def objective(order: Order, stage: StageTwo, arm: str) -> str:
    """Return a name for the training, from the terms that teach more than imitation."""
    active = terms(order, stage, arm)
    if len(active) == 2:
        return "Swarm-Consistent Distillation"
    return f"imitation in {order} order" + "".join(f", with the {name} term" for name in active)
