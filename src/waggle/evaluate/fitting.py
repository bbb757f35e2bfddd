"""Fitting recipes: the development cases that a learned peer is trained on.

    tasks = ["silo/*"]
    n = [16, 32, 64]
    seeds = { start = 20000, count = 40 }

`steps` may shorten a method's training, for all substrates or by substrate name. Evaluation and
training seeds of laws are refused. The utility of a SwarmBench episode is its normalized score.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from waggle.baselines.peers import training
from waggle.baselines.peers.organiser import Organiser
from waggle.core.errors import ConfigError, first_mistake
from waggle.core.protocols import Case
from waggle.core.seeds import Split, require
from waggle.evaluate import anchors
from waggle.evaluate.plan import Seeds, read_file, tasks_of

_Steps = Annotated[int, Field(ge=1)]


class FitRecipe(BaseModel):
    """The cases that a method is fitted to."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    tasks: Annotated[list[str], Field(min_length=1)]
    """Task names; `silo/*` selects all tasks of `silo`."""
    n: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
    """Population sizes."""
    seeds: Seeds
    """A range of development seeds."""
    steps: _Steps | dict[str, _Steps] | None = None
    """Steps for every population, or by substrate; the method's default if unset."""

    def cases(self) -> list[Case]:
        """Return all cases, grouped by size."""
        drawn = range(self.seeds.start, self.seeds.start + self.seeds.count)
        tasks = tasks_of(self.tasks)
        return [
            Case(task.substrate, task.task, n, require(seed, Split.DEVELOPMENT))
            for n in self.n
            for task in tasks
            for seed in drawn
        ]


def load(path: Path) -> FitRecipe:
    """Read a fitting recipe; an error names the wrong field in one line."""
    try:
        return FitRecipe.model_validate(read_file(path))
    except ValidationError as error:
        place, wrong = first_mistake(error.errors())
        where = ".".join(str(part) for part in place)
        raise ConfigError(f"{path}: {where}: {wrong}") from None


def utility(organiser: Organiser, case: Case, draw: int) -> float:
    """Play one development case; return its partial score, on SwarmBench the normalized one."""
    scale = anchors.load().scores.get(case.task, 1.0) if case.substrate == "swarmbench" else 1.0
    return training.utility(organiser, case, draw) / scale
