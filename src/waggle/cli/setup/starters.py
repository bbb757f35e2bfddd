"""Templates of `waggle new`: for every kind a file that runs, its test and a page about it.

`$name` is the registered name, `$module` the file without its ending, `$cls` the class, `$kind` the
kind.
"""

from __future__ import annotations

from string import Template
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["substrate", "law", "metric", "worker"]


class Starter(NamedTuple):
    """The three texts of one kind."""

    code: Template
    test: Template
    docs: Template


_LAW = Template('''"""The law `$name`: what a node says and does, given its view."""

from collections.abc import Sequence

from waggle import Decision, Decode, Request, View, law
from waggle.core.schema import private_decision
from waggle.laws.heuristic import commit, deposit


@law("$name")
class $cls:
    """Says what it sees, commits when it is ready, and repeats no hearsay."""

    name = "$name"

    def __init__(self, least: int = 0) -> None:
        self.least = least  # an option: --law.least 3

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round; the order must not matter."""
        return [Decode(self.one(request.view)) for request in requests]

    def one(self, view: View) -> Decision:
        """Decide for one node; what it does not write or commit is the private proposal."""
        if view.budget < self.least:
            return private_decision(view)
        return commit(view) or deposit(view) or private_decision(view)
''')

_METRIC = Template('''"""The metric `$name`: one number of one episode record."""

from waggle import EpisodeRecord, metric


@metric("$name", better="higher", unit="native")
def $module(episode: EpisodeRecord) -> float | None:
    """The best score of any round; None where it is not defined."""
    return max((entry.score["score"] for entry in episode.rounds), default=None)
''')

_SUBSTRATE = Template('''"""The substrate `$name`: a ring of nodes, one of which knows a rumour."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import BaseModel

from waggle import Act, Case, Contract, Evidence, Local, Sensed, Suggestion, WorldBase, substrate
from waggle.core.seeds import derive


class ${cls}World(WorldBase):
    """One episode. Draws are named by keys, which move along when a swarm is relabelled."""

    contract = Contract("$name", "Believe the rumour and pass it on.", ("LISTEN", "WAIT"))

    def __init__(self, case: Case, keys: Sequence[int]) -> None:
        self.n, self.keys = case.n, list(keys)
        self.rounds = 2 * case.n if case.rounds is None else case.rounds
        self.source = derive(case.seed, "source") % case.n
        self.believers = 0

    def neighbours(self, node: int) -> list[int]:
        """Name the contacts of a node: those beside it on the ring."""
        beside = {(self.keys[node] + step) % self.n for step in (1, -1)} - {self.keys[node]}
        return [self.keys.index(key) for key in beside]

    def sense(self, node: int, local: Local) -> Sensed:
        """Show a node what it may know, and what it would do alone; change nothing."""
        knows = self.keys[node] == self.source
        return Sensed(
            observation={"ear": "at the source" if knows else "open"},
            proposal=Suggestion("LISTEN"),
            evidence=(Evidence("rumour", 4, 4, 0),) if knows else (),
            ready=("rumour",) if knows or local.traces else (),
        )

    def step(self, acts: Mapping[int, Act]) -> dict[int, str]:
        """Carry out what was decided, and name it."""
        self.believers = sum(act.local.commitment is not None for act in acts.values())
        return {node: act.action for node, act in acts.items()}

    def score(self) -> dict[str, float]:
        """Return named scores; `score` is the headline."""
        return {"score": self.believers / self.n}


@substrate("$name")
class $cls:
    """A rumour on a ring."""

    name: ClassVar[str] = "$name"
    tasks: ClassVar[tuple[str, ...]] = ("$name",)
    options: ClassVar[type[BaseModel]] = BaseModel

    def open(self, case: Case, keys: Sequence[int] | None = None) -> ${cls}World:
        """Build the world of a case."""
        return ${cls}World(case, range(case.n) if keys is None else keys)
''')

_WORKER = Template('''"""The worker `$name`: from a node's private state to its private proposal."""

from waggle.core.schema import Json
from waggle.core.worker import Work


def $module(work: Work) -> Json:
    """Answer what a node is asked: one of `work.actions` where there are any; None is no answer.

    `work.state` is what the node itself holds, `work.delivered` what messages brought. Ask a model
    here, or compute. The task's own rule stands in until you do.
    """
    return work.native() if work.native is not None else None
''')

_CHECK = Template("""from $module import $cls

from waggle import check_$kind


def test_$module() -> None:
    check_$kind($cls()).require()
""")

STARTERS: dict[Kind, Starter] = {
    "law": Starter(
        _LAW,
        _CHECK,
        Template("""# The law `$name`

What it does, in two sentences: what a node says, when it commits, when it reopens.

```sh
waggle check law $name --plugin $module.py
waggle run beacon --law $name --plugin $module.py --watch
```
"""),
    ),
    "metric": Starter(
        _METRIC,
        Template("""from $module import $module

import waggle


def test_$module() -> None:
    assert $module(waggle.run("beacon", n=8, seed=10_000).record) is not None
"""),
        Template("""# The metric `$name`

What it counts, its unit, when it is None, and whether higher is better.

```sh
waggle list metrics --plugin $module.py
waggle run beacon --plugin $module.py
```
"""),
    ),
    "substrate": Starter(
        _SUBSTRATE,
        _CHECK,
        Template("""# The substrate `$name`

What the nodes want, what each of them sees, what the score measures, and what physics allows.

```sh
waggle check substrate $name --plugin $module.py
waggle run $name -n 8 --plugin $module.py --watch
```
"""),
    ),
    "worker": Starter(
        _WORKER,
        Template("""from $module import $module

import waggle


def test_$module() -> None:
    played = waggle.run("silo/I-01", n=4, seed=10_000, worker=$module)
    assert played.counters["worker.calls"] and not played.counters["worker.failures"]
"""),
        Template("""# The worker `$name`

What it is asked, how it answers, and what a call costs.

```sh
waggle run silo/I-01 -n 4 --worker $module.py:$module
waggle run silo/I-01 -n 4 --worker $module.py:$module --worker.schedule reuse
```
"""),
    ),
}
"""Kind -> its templates."""
