"""Settings of a corpus: the models for the command line, recipes and the manifest."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from waggle.core.errors import ConfigError, first_mistake
from waggle.corpus.views.native import TRAINING

Count = Annotated[int, Field(ge=0, le=10_000_000)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]
Sizes = Annotated[tuple[int, ...], Field(min_length=1)]
Rounds = Annotated[int, Field(ge=1, le=1_000_000)] | None
_LATER = frozenset(("close", "ports", "far", "near", "development", "as_seen", "families"))
"""Settings that were added after the first corpora."""


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

    @model_serializer(mode="wrap")
    def _dump(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out later settings that are off; a corpus without them keeps its identity."""
        fields: dict[str, Any] = plain(self)
        return {name: value for name, value in fields.items() if value or name not in _LATER}


class CorpusSettings(_Settings):
    """The decision corpus; the defaults are the paper's."""

    seed: int = 0
    """Seed of every draw of the corpus."""
    tasks: Names = TRAINING
    """Training tasks; a substrate name stands for all its tasks. Transfer tasks are refused."""
    families: tuple[str, ...] = ()
    """Substrates whose views are kept after the corpus of `tasks` is made; all if empty."""
    bundles: Count = 800
    """Bundles of eight synthetic views in the training split."""
    validation: Count = 100
    """Bundles in the validation split."""
    test: Count = 100
    """Bundles in the test split."""
    native: Count = 512
    """Native views in the training split."""
    native_held_out: Count = 0
    """Native views in each of the splits validation and test."""
    disguised: Count = 0
    """Spatial views under made-up contracts in the training split; a tenth as many held out."""
    far: Count = 0
    """Views of Far graph problems in the training split; a tenth as many held out."""
    near: Count = 0
    """Views of Near graph problems in the training split; a tenth as many held out."""
    development: Count = 0
    """Views of the Far problems that no law is trained on, in the test split only."""
    made_up: Annotated[int, Field(ge=0, le=100)] = 50
    """Percent of synthetic views with made-up task and action vocabularies."""
    laws: Names = ("expert", "heuristic", "random-legal")
    """Laws that play the episodes of native views."""
    n: Sizes = (8, 16, 32)
    """Swarm sizes of those episodes."""
    rounds: Rounds = None
    """Rounds of those episodes; by default the task's horizon."""


class HarvestSettings(_Settings):
    """A large corpus of views for stage one, stored as tokens; off if `native` is 0."""

    seed: int = 0
    """Seed of every draw of the harvest."""
    tasks: Names = TRAINING
    """Training tasks; a substrate name stands for all its tasks. Transfer tasks are refused."""
    native: Count = 0
    """Views of the planned episodes, equally many per substrate; duplicates are then dropped."""
    synthetic: Count = 0
    """Synthetic views, in bundles of the eight situation classes."""
    disguised: Count = 0
    """Spatial views under made-up contracts, half of them played, half of them situations."""
    close: Count = 0
    """Close calls: situations in which rows compete and the strongest are often dying."""
    ports: Count = 0
    """Views of the planned episodes of Silo's regime `ports`, a frame on every port."""
    far: Count = 0
    """Views of Far graph problems, labelled by their own rules."""
    near: Count = 0
    """Views of Near graph problems, labelled by their own rules."""
    held_out: Annotated[int, Field(ge=8, le=100_000)] = 2_000
    """Views of each harvested kind in the validation split."""
    made_up: Annotated[int, Field(ge=0, le=100)] = 70
    """Percent of synthetic views with made-up task and action vocabularies, half of them in
    unrestricted spelling (see `waggle.corpus.views.words`)."""
    laws: Names = ("expert", "noisy-expert", "noisy-expert", "heuristic", "random-legal")
    """Laws that steer episodes; `noisy-expert` replaces some of the expert's choices."""
    n: Annotated[tuple[Annotated[int, Field(ge=2, le=1024)], ...], Field(min_length=1)] = (
        8, 16, 32, 64,
    )  # fmt: skip
    """Swarm sizes; each gets about the same number of views."""
    rounds: Rounds = None
    """Updates of an episode; by default the task's horizon, and 18 in a shocked Silo episode."""
    as_seen: bool = False
    """In shuffled order, make no orbit images: one view per orbit is kept, with the names and row
    order it was first made or played with. Otherwise every second view gets fresh ones."""


class TransitionSettings(_Settings):
    """The transition corpus; the defaults are the paper's."""

    seed: int = 0
    """Seed of every draw of the collection."""
    tasks: Names = TRAINING
    """Training tasks; a substrate name stands for all its tasks."""
    law: str = "warm-start"
    """The law that plays: `warm-start` (the decision-supervised law of the run) or any law name."""
    train: Count = 14_256
    """Transitions in the training split."""
    validation: Count = 4_752
    """Transitions in the validation split."""
    probe: Count = 4_752
    """Transitions that the frozen probes are fitted on."""
    test: Count = 4_752
    """Transitions that the frozen probes are evaluated on."""
    eventful: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of eventful transitions in every split."""
    n: Sizes = (8, 16)
    """Swarm sizes."""
    rounds: Rounds = None
    """Rounds of an episode; by default the task's horizon."""
    episodes: Annotated[int, Field(ge=1, le=10_000)] = 400
    """Maximum episodes per split; the collection ends earlier when it is full."""
    spread: Annotated[int, Field(ge=1, le=1_000)] = 24
    """Minimum episodes that a split is drawn from; no episode gives more than its share."""
    together: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Episodes played in one batch, for laws that decide in batches."""


def one_line(error: ValidationError, where: str) -> ConfigError:
    """Return the first validation error of a settings model as a one-line error."""
    place, wrong = first_mistake(error.errors(include_url=False, include_context=False))
    name = ".".join(str(part) for part in place)
    return ConfigError(f"{where}: {name or 'settings'}: {wrong}")
