"""Settings of a run of `waggle learn`, read from one TOML file; unknown keys are an error."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from itertools import cycle
from math import fsum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from waggle import plugins
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case
from waggle.core.seeds import Split, generator
from waggle.corpus.settings import one_line

SCRATCH = "scratch"
"""The value of `start` that selects a backbone without the weights of a law."""
BUDGET = ("minutes", "batches")
"""The settings that end a run."""
Credit = Literal["auto", "group", "share", "progress", "frozen", "branch"]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Part = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1_000)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class Adapter(_Settings):
    """The adapter for training a large backbone; a small one is trained in full."""

    rank: Count = 32
    """Rank of the adapter."""
    alpha: Count = 64
    """LoRA alpha."""
    above: Annotated[int, Field(ge=0)] = 50_000_000
    """Backbones with more weights than this are trained with an adapter."""


class Machine(_Settings):
    """Device, processes, precision and checkpoints of a run."""

    device: str = "auto"
    """`auto`, `cpu` or `cuda`."""
    processes: Count = 1
    """Processes that play episodes; with 1, the learning process plays them itself."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """Precision of training and of playing. Default: bfloat16 on a GPU, else float32."""
    tokens_per_pass: Count = 32_768
    """Tokens per training pass; lower it if memory runs out."""
    compile: bool = False
    """Compile the trained layers: takes half a minute at first, then faster on a GPU."""
    save_every: Count = 20
    """Batches between checkpoints."""
    tracker: str = "none"
    """Tracker used besides `metrics.jsonl`: `none`, `tensorboard`, `trackio` or `wandb`."""


class Settings(_Settings):
    """Settings of one run of learning from outcomes."""

    name: str = "learn"
    """Name of the run, in its files and on the card."""
    tasks: tuple[str, ...] = ()
    """Names of `waggle list tasks`, or of a substrate for all of its tasks."""
    often: dict[str, Count] = {}
    """Tasks that get more cases than others, and by what factor."""
    n: tuple[Count, ...] = (8,)
    """Swarm sizes; cases cycle through them."""
    rounds: Count | None = None
    """Local updates per episode. Default: the task's horizon."""
    shock: bool = False
    """Inject late counterevidence."""
    options: dict[str, Any] = {}
    """Options of the substrate."""
    vary: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}
    """Option values that vary between cases, chosen by the case's seed, e.g. graphs."""
    start: str = "nano"
    """Starting law: a shipped law, a law's folder, or `scratch`."""
    backbone: str = "nano"
    """With `scratch`: the untrained or pretrained model that becomes a law."""
    order: Literal["shuffled", "canonical"] = "canonical"
    """With `scratch`: the canon order; other laws keep their own."""
    grammar_updates: Annotated[int, Field(ge=0, le=1_000_000)] = 300
    """With `scratch`: updates that imitate random legal records, which teach only the format."""
    reward: dict[str, float] = {"score": 1.0}
    """Weights of the scores of a world; the reward is their weighted sum. With credit `progress` in
    a world with `share` or `standing`, it is only reported."""
    credit: Credit = "auto"
    """How decisions are credited for an outcome; `auto` uses `share` if the world has it."""
    discount: Part = 0.7
    """With `progress`: the weight of a round relative to the one before it."""
    gained: bool = False
    """With `progress`: subtract the score before the decision, in worlds whose score adds up."""
    cases: Count = 8
    """Cases per batch."""
    replays: Annotated[int, Field(ge=2, le=1024)] = 8
    """Episodes per case, which differ only in luck."""
    probes: Count = 16
    """With `frozen` and `branch`: decisions per episode that are replaced by another sample."""
    mode: Literal["constrained", "free"] = "constrained"
    """How episodes are sampled: from admissible records only, or freely."""
    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Sampling temperature: high to explore, lower late in training."""
    charge: Weight = 1.0
    """Penalty subtracted from the advantage of a decision that was not executable as decoded."""
    minutes: Annotated[float, Field(gt=0, le=1_440)] = 10.0
    """Time budget of the loop; the run ends when this or `batches` is reached."""
    batches: Count = 100_000
    """Maximum number of batches."""
    ahead: bool = False
    """Sample a batch while the previous one is trained on, with weights that are one batch older;
    refused with one of `machine.processes`, where nothing would overlap. The batch after a
    checkpoint is sampled with its weights, so that a resumed run is identical."""
    trained: Count = 4_096
    """Approximate number of decisions per batch to train on, drawn in proportion to credit."""
    updates: Count = 2
    """Optimizer updates per batch."""
    rate: Annotated[float, Field(gt=0, le=1)] = 2e-5
    """Learning rate."""
    rate_warm_up: Annotated[int, Field(ge=0)] = 4
    """Updates in which the rate rises to its value."""
    clip: Annotated[float, Field(gt=0)] = 0.2
    """PPO's clipping range: how far the ratio of new to sampled probability may be from 1."""
    kl: Weight = 0.01
    """Weight of the divergence from the starting law."""
    entropy: Weight = 0.0
    """Weight of the entropy of choices."""
    entropy_most: Weight = 10.0
    """Maximum entropy of a choice that is rewarded."""
    legality: Weight = 0.1
    """Weight of the loss that keeps the law admissible when it decodes freely."""
    rehearse: tuple[str, ...] = ()
    """Tasks on which decisions of the starting law are rehearsed, against forgetting."""
    rehearse_n: tuple[Count, ...] = ()
    """Swarm sizes of rehearsed tasks; `n` if empty."""
    kept_cases: Count = 4
    """Development cases per rehearsed name and size, on which retention is measured."""
    rehearsed: Annotated[float, Field(ge=0, lt=1)] = 0.25
    """Share of rehearsed decisions in an update."""
    trial_cases: Count = 24
    """Development cases per task and size on which laws are compared during the run."""
    trial_mode: Literal["free", "constrained"] = "free"
    """How laws decode in comparisons: freely, as a shipped law does, or from admissible records
    only, if the law will be played that way."""
    trial_every: Count = 10
    """Batches between comparisons."""
    final_cases: Count = 48
    """Separate development cases of the final comparison, which determines the export."""
    fidelity: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Decisions on which the credit is compared with closed-loop branches after the run."""
    shuffled: bool = False
    """Control: assign advantages to decisions at random; such a run must not learn."""
    adapter: Adapter = Adapter()
    machine: Machine = Machine()

    def fixed(self) -> dict[str, Any]:
        """Return the settings that must not change on resume; the others affect only rounding.

        `save_every` is among them, since it determines which batches are not sampled ahead. The
        budget is not, so that a run can go on with a larger one, nor is `fidelity`, which is
        measured after the run.
        """
        kept = self.model_dump(mode="json", exclude={*BUDGET, "fidelity", "machine"})
        return {**kept, "machine": self.machine.model_dump(include={"dtype", "save_every"})}


def read_settings(path: Path | None, **given: Any) -> Settings:
    """Read a recipe of learning; values from the command line take precedence.

    Raises:
        ConfigError: one line that names the file, the key and what is wrong with it.
        PluginError: for an unknown task.
    """
    data: dict[str, Any] = {}
    if path is not None:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise ConfigError(f"cannot read recipe {path} ({reason})") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"recipe {path} is not TOML ({error})") from None
        if "blocks" in data:
            raise ConfigError(f"{path} is a recipe of evaluation; use `waggle eval {path}`")
        if "corpus" in data:
            raise ConfigError(f"{path} is a recipe of training; use `waggle train {path}`")
    processes = given.pop("processes", None)
    data |= {name: value for name, value in given.items() if value is not None}
    if processes is not None:
        machine = data.get("machine")
        data["machine"] = {**(machine if isinstance(machine, dict) else {}), "processes": processes}
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise one_line(error, f"recipe {path}" if path else "learn") from None
    if not settings.tasks:
        raise ConfigError("nothing to learn: name a task, or `tasks` in the recipe")
    if settings.ahead and settings.machine.processes == 1:
        raise ConfigError("ahead = true needs several players: use --processes 2, or ahead = false")
    tasks_of(settings.tasks)  # an unknown task is refused before anything is played
    return settings


def reward(settings: Settings, scores: Mapping[str, float]) -> float:
    """Return the reward of an outcome: the weighted sum of its scores.

    Raises:
        ConfigError: if the world lacks one of the scores.
    """
    missing = [name for name in settings.reward if name not in scores]
    if missing:
        raise ConfigError(
            f"the world has no score {missing[0]!r} to learn from; it has "
            f"{', '.join(scores) or 'none: let its score() return one'}"
        )
    return fsum(weight * scores[name] for name, weight in settings.reward.items())


def tasks_of(names: tuple[str, ...]) -> list[plugins.Task]:
    """Return the tasks with these names; a substrate's name stands for all of its tasks."""
    found = []
    for name in names:
        if name in plugins.names("substrate"):
            found += [plugins.Task(name, task) for task in plugins.get_substrate(name).tasks]
        else:
            found.append(plugins.find_task(name))
    return found


def training_cases(settings: Settings, seed: int, batch: int) -> list[Case]:
    """Draw the cases of a batch: tasks and sizes in turn, seeds of the training split."""
    tasks = tasks_of(settings.tasks)
    seeds = generator(seed, "learn cases", batch).integers(
        Split.DEVELOPMENT.start, size=settings.cases
    )
    first = batch * settings.cases
    often = {plugins.find_task(name): times for name, times in settings.often.items()}
    cells = [(task, n) for n in settings.n for task in tasks for _ in range(often.get(task, 1))]
    return [
        _case(settings, *cells[(first + place) % len(cells)], int(drawn))
        for place, drawn in enumerate(seeds)
    ]


def development_cases(settings: Settings, count: int, *, final: bool) -> list[Case]:
    """Return cases of the development split; the final comparison has separate seeds."""
    return [
        _case(settings, task, n, seed)
        for task in dict.fromkeys(tasks_of(settings.tasks))
        for n in settings.n
        for seed in _development_seeds(count, final=final)
    ]


def kept_cases(settings: Settings) -> list[Case]:
    """Return development cases of the rehearsed names; those of a name cycle through its tasks."""
    seeds = _development_seeds(settings.kept_cases, final=True)
    return [
        _case(settings, task, n, seed)
        for name in settings.rehearse
        for n in settings.rehearse_n or settings.n
        for task, seed in zip(cycle(tasks_of((name,))), seeds, strict=False)
    ]


def _development_seeds(count: int, *, final: bool) -> Sequence[int]:
    seeds = Split.DEVELOPMENT.value[1 if final else 0]
    if count > len(seeds):
        raise ConfigError(f"there are {len(seeds)} development seeds; compare on fewer cases")
    return seeds[:count]


def _case(settings: Settings, task: plugins.Task, n: int, seed: int) -> Case:
    if task not in tasks_of(settings.tasks):  # rehearsed: as the task is by default
        return Case(task.substrate, task.task, n, seed)
    options = settings.options | _varied(settings, seed)
    return Case(task.substrate, task.task, n, seed, settings.rounds, settings.shock, options)


def _varied(settings: Settings, seed: int) -> dict[str, Any]:
    """Return the varied options of a seed; consecutive seeds enumerate them, the first fastest."""
    varied = {}
    for name, values in settings.vary.items():
        varied[name], seed = values[seed % len(values)], seed // len(values)
    return varied
