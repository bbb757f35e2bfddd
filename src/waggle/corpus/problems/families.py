"""The declared families, and labelled views of their problems.

`far` is trained on in both arms, `near` in the second arm only; the `development` problems are Far
ones that no law is trained on. Views come from played episodes at random updates; the label is the
decision of the problem's own rule on the view as it is shown. Invariant: a stream of views is a
pure function of its salt, and no transfer task is read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import chain, islice
from typing import Any

from waggle.core import orbit
from waggle.core.order import Order, canonical
from waggle.core.schema import CHANNEL_ARGUMENT, WAIT, Contract, Decision, View
from waggle.corpus.problems import far, near
from waggle.corpus.problems.play import (
    ANOTHER,
    YOU,
    Episode,
    Problem,
    Task,
    decide,
    draw_graph,
    draw_keys,
    rounds_for,
)
from waggle.corpus.views import words
from waggle.corpus.views.rng import Draw

GOALS: Mapping[str, Any] = tomllib.loads(
    files(__package__).joinpath("goals.toml").read_text(encoding="utf-8")
)
"""Wordings of every goal."""
HELD_OUT = ("next hop", "rank among contacts", "threshold automaton")
"""Far problems for development: one names a contact, one counts, one has two answers."""
PROBLEMS: Mapping[str, Problem] = {**far.PROBLEMS, **near.PROBLEMS}
FAMILIES: Mapping[str, Sequence[str]] = {
    "far": tuple(name for name in far.PROBLEMS if name not in HELD_OUT),
    "near": tuple(near.PROBLEMS),
    "development": HELD_OUT,
}
"""Names of the problems by family; the families are disjoint."""
PER_TASK = 10
"""Approximate number of consecutive views of one task; their prompt is tokenised once."""
_ASIDE = 30
"""Percent of goals with an additional meaningless sentence."""
_CHANGED, _UNCHANGED = 70, 15
"""Percent of updates that give a view, with and without a changed answer. In most of an episode no
answer changes, and a law that learned from all of it would learn to repeat itself."""
_ANY = 25
"""Percent of such updates that also give the view of a random node."""
_PLAYED = 5
"""Maximum updates per node that are played; later in a long episode little happens."""
_ACTIVE = 50
"""Percent of such updates that give only the view of the node whose turn it is."""


def pairs(
    family: str, salt: int, count: int, order: Order = "shuffled"
) -> Iterator[tuple[View, Decision]]:
    """Yield `count` views of a family's problems in the given order, each with its label.

    Problems alternate. A view is shown with fresh names and row orders, and labelled as shown.
    """
    names = FAMILIES[family]
    episodes = (
        _episode(Draw(salt, "problem", family, number), PROBLEMS[names[number % len(names)]], order)
        for number in range(count)
    )
    return islice(chain.from_iterable(episodes), count)


def _episode(draw: Draw, problem: Problem, order: Order) -> Iterator[tuple[View, Decision]]:
    """Play one episode and yield some views of it, labelled."""
    task = make_task(draw, problem)
    graph = draw_graph(draw, problem.degree)
    most = rounds_for(problem, graph)
    episode = Episode(draw, task, graph, most)
    made = 0
    for _ in range(min(most, _PLAYED * len(graph))):
        views = [episode.view(node) for node in range(len(graph))]
        before, active = list(episode.standing), episode.active()
        episode.step([decide(task, view) for view in views])
        changed = [v for v, (old, new) in enumerate(zip(before, episode.standing, strict=True))
                   if old != new]  # fmt: skip
        if draw.chance(_CHANGED if changed else _UNCHANGED):
            nodes = draw.some(changed, 2) if changed else [draw.below(len(graph))]
            if problem.turns and active is not None and draw.chance(_ACTIVE):
                nodes = [active]
            elif draw.chance(_ANY):
                nodes.append(draw.below(len(graph)))
            for node in nodes:
                shown = orbit.sample(views[node], draw.bits()).view(views[node])
                shown = canonical(shown)[0] if order == "canonical" else shown
                yield shown, decide(task, shown)
            made += len(nodes)
            if made >= PER_TASK:
                return


def make_task(draw: Draw, problem: Problem) -> Task:
    """Draw the words of a problem: actions, keys, the goal, and distractor facts."""
    numbers = (*problem.private, *problem.public)
    further = draw.choice((0, 0, 0, 1, 2))
    found = draw_keys(draw, 2 + len(numbers) + further)
    keys = dict(zip(("answer", "named", *numbers), found, strict=False))
    count = draw.between(*problem.plain)
    *plain, verb = words.actions(draw, count + 1, common=draw.chance(50))
    unstated = draw.choice([word for word in GOALS["unstated"] if word not in plain])
    you, another = draw.choice(GOALS["pointing"])
    k = draw.between(*problem.k) if problem.k[1] else count
    goal = _goal(draw, problem, plain, verb[:30], keys, k)
    actions = [*([f"{verb[:30]}:{CHANNEL_ARGUMENT}"] if problem.points else []), *plain]
    actions.insert(len(actions) if draw.chance(60) else 0, WAIT)
    contract = Contract(words.task(draw), goal, tuple(actions), broadcast=True)
    return Task(
        problem, contract, plain, verb[:30], keys, unstated, {YOU: you, ANOTHER: another},
        found[len(keys):], k,
    )  # fmt: skip


def _goal(
    draw: Draw, problem: Problem, plain: Sequence[str], verb: str, keys: Mapping[str, str], k: int
) -> str:
    """Return the goal text: the problem, the turns, what contacts state, and perhaps an aside."""
    parts = [draw.choice(GOALS["problems"][problem.name])]
    parts += [draw.choice(GOALS["turn"])] if problem.turns else []
    parts.append(draw.choice(GOALS["telling"]))
    parts += [draw.choice(GOALS["public"])] if problem.public else []
    parts += [words.sentence(draw)] if draw.chance(_ASIDE) else []
    filled = {
        "a": plain[0] if plain else "", "b": plain[1] if len(plain) > 1 else "",
        "last": plain[-1] if plain else "", "all": ", ".join(plain), "verb": verb, "k": str(k),
        "public": keys.get(problem.public[0], "") if problem.public else "", **keys,
    }  # fmt: skip
    text = " ".join(parts)
    for slot, word in filled.items():
        text = text.replace(f"{{{slot}}}", word)
    return text
