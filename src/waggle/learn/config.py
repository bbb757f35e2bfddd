"""What a run of `waggle learn` is, as one TOML file; unknown keys are an error."""

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
"""The start that has no weights of its own: an untrained backbone."""
Credit = Literal["auto", "group", "share", "progress", "frozen", "branch"]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Part = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1_000)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)


class Adapter(_Settings):
    """The adapter that a large backbone is trained by; a small one is trained whole."""

    rank: Count = 32
    alpha: Count = 64
    above: Annotated[int, Field(ge=0)] = 50_000_000
    """Backbones with more weights than this are trained by an adapter."""


class Machine(_Settings):
    """How the machine is used."""

    device: str = "auto"
    """`auto`, `cpu` or `cuda`."""
    processes: Count = 1
    """Processes that play episodes; one plays in the process that learns."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """Arithmetic of training; by default bfloat16 on a GPU."""
    tokens_per_pass: Count = 32_768
    """Tokens that are run together in training; lower it if memory runs out."""
    compile: bool = False
    """Compile the layers that are trained: half a minute at first, then faster on a GPU."""
    save_every: Count = 20
    """Batches between two checkpoints."""
    tracker: str = "none"
    """A tracker in addition to `metrics.jsonl`: `none`, `tensorboard`, `trackio` or `wandb`."""


class Settings(_Settings):
    """A run of learning from outcomes."""

    name: str = "learn"
    tasks: tuple[str, ...] = ()
    """Names of `waggle list tasks`, or of a substrate for all of its tasks."""
    often: dict[str, Count] = {}
    """Tasks that get more cases than others, and how many times as many."""
    n: tuple[Count, ...] = (8,)
    """Swarm sizes; cases go round through them."""
    rounds: Count | None = None
    """Local updates of an episode; the task's own horizon if unset."""
    shock: bool = False
    """Whether late counterevidence is injected."""
    options: dict[str, Any] = {}
    """Options of the substrate."""
    vary: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}
    """Values of options that differ from case to case, by its seed: graphs, for instance."""
    start: str = "nano"
    """The law it begins with: a shipped law, a law's folder, or `scratch`."""
    backbone: str = "nano"
    """With `scratch`: the untrained or pretrained model that becomes a law."""
    order: Literal["shuffled", "canonical"] = "canonical"
    """With `scratch`: the canon order; other laws keep their own."""
    grammar_updates: Annotated[int, Field(ge=0, le=1_000_000)] = 300
    """With `scratch`: updates of imitating random legal records, which teach the format alone."""
    reward: dict[str, float] = {"score": 1.0}
    """Weights of the scores of a world; their sum is what is learned from."""
    credit: Credit = "auto"
    """How an outcome is shared out among decisions; `auto` takes `share` where the world has it."""
    discount: Part = 0.7
    """With `progress`: the weight of a round against the one before it."""
    gained: bool = False
    """With `progress`: leave out what stood before a decision, in worlds whose score adds up."""
    cases: Count = 8
    """Cases of a batch."""
    replays: Annotated[int, Field(ge=2, le=1024)] = 8
    """Episodes of each case, which differ by luck alone."""
    probes: Count = 16
    """With `frozen` and `branch`: decisions of an episode that are replaced by another sample."""
    mode: Literal["constrained", "free"] = "constrained"
    """How episodes are sampled: among admissible records alone, or freely."""
    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    charge: Weight = 1.0
    """Taken from the advantage of a decision that was not executable as decoded."""
    minutes: Annotated[float, Field(gt=0, le=1_440)] = 10.0
    """Time budget of the loop; whichever of it and `batches` is reached first ends the run."""
    batches: Count = 100_000
    ahead: bool = False
    """Whether a batch is sampled while the one before it is trained on, by weights that are one
    batch older; it takes several `machine.processes`. A batch that follows a checkpoint is sampled
    by the weights of that checkpoint, so that a resumed run is the same run."""
    trained: Count = 4_096
    """About how many decisions of a batch are trained on, drawn in proportion to their credit."""
    updates: Count = 2
    """Optimizer updates of each batch."""
    rate: Annotated[float, Field(gt=0, le=1)] = 2e-5
    rate_warm_up: Annotated[int, Field(ge=0)] = 4
    clip: Annotated[float, Field(gt=0)] = 0.2
    """PPO's clipping range: how far the ratio of new to sampled probability may be from 1."""
    kl: Weight = 0.01
    """Weight of the divergence from the starting law."""
    entropy: Weight = 0.0
    """Weight of the entropy of choices."""
    entropy_most: Weight = 10.0
    """Entropy of a choice up to which it is rewarded."""
    legality: Weight = 0.1
    """Weight of the loss that keeps the law admissible where it decodes freely."""
    rehearse: tuple[str, ...] = ()
    """Tasks whose decisions of the starting law are rehearsed, against forgetting."""
    rehearse_n: tuple[Count, ...] = ()
    """Swarm sizes of rehearsed tasks; `n` if empty."""
    kept_cases: Count = 4
    """Development cases of each rehearsed name and size on which it is measured what was kept."""
    rehearsed: Annotated[float, Field(ge=0, lt=1)] = 0.25
    """Share of rehearsed decisions in an update."""
    trial_cases: Count = 24
    """Development cases of each task and size on which laws are compared during the run."""
    trial_mode: Literal["free", "constrained"] = "free"
    """How laws are compared: decoding freely, as a law that ships does, or among admissible records
    alone, where the law shall be played like that."""
    trial_every: Count = 10
    """Batches between two comparisons."""
    final_cases: Count = 48
    """Other development cases of the last comparison, which decides about the export."""
    fidelity: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Decisions on which the credit is compared with closed-loop branches after the run."""
    shuffled: bool = False
    """Control: advantages are dealt to decisions at random; it must not learn."""
    adapter: Adapter = Adapter()
    machine: Machine = Machine()

    def fixed(self) -> dict[str, Any]:
        """Return what a run keeps when it is resumed; the rest changes nothing but rounding.

        Where batches are sampled ahead, `save_every` says which ones are not. The fidelity of the
        credit is measured after the run.
        """
        kept = self.model_dump(mode="json", exclude={"fidelity", "machine"})
        return {**kept, "machine": self.machine.model_dump(include={"dtype", "save_every"})}


def read_settings(path: Path | None, **given: Any) -> Settings:
    """Read a recipe of learning; what the command line gives counts more.

    Raises:
        ConfigError: one line that names the file, the key and what is wrong with it.
        PluginError: for a task that nobody knows.
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
    data |= {name: value for name, value in given.items() if value is not None}
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise one_line(error, f"recipe {path}" if path else "learn") from None
    if not settings.tasks:
        raise ConfigError("nothing to learn: name a task, or `tasks` in the recipe")
    tasks_of(settings.tasks)  # one that nobody knows is refused before anything is played
    return settings


def reward(settings: Settings, scores: Mapping[str, float]) -> float:
    """Return what an outcome is worth.

    Raises:
        ConfigError: where the world has no such score.
    """
    missing = [name for name in settings.reward if name not in scores]
    if missing:
        raise ConfigError(
            f"the world has no score {missing[0]!r} to learn from; it has "
            f"{', '.join(scores) or 'none: let its score() return one'}"
        )
    return fsum(weight * scores[name] for name, weight in settings.reward.items())


def tasks_of(names: tuple[str, ...]) -> list[plugins.Task]:
    """Return the tasks of some names; the name of a substrate stands for all of its tasks."""
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
    """Return cases of the development split, those of the last comparison apart from the others."""
    return [
        _case(settings, task, n, seed)
        for task in dict.fromkeys(tasks_of(settings.tasks))
        for n in settings.n
        for seed in _development_seeds(count, final=final)
    ]


def kept_cases(settings: Settings) -> list[Case]:
    """Return development cases of what is rehearsed; those of a name go through its tasks."""
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
    options: dict[str, Any] = {}
    rounds = None
    if task in tasks_of(settings.tasks):
        options, rounds = settings.options | _varied(settings, seed), settings.rounds
    return Case(task.substrate, task.task, n, seed, rounds, settings.shock, options)


def _varied(settings: Settings, seed: int) -> dict[str, Any]:
    """Return the varied options of a seed; seeds in a row go through all, the first one fastest."""
    varied = {}
    for name, values in settings.vary.items():
        varied[name], seed = values[seed % len(values)], seed // len(values)
    return varied
