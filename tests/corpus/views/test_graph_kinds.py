"""Views of tasks on graphs: bounded, reproducible, equivariant, and each kind asks what it says."""

from __future__ import annotations

from collections import Counter

import pytest

from waggle import plugins
from waggle.core import orbit
from waggle.core.admit import violations
from waggle.core.canon import check_view, encode_view
from waggle.core.order import canonical
from waggle.core.protocols import Case
from waggle.core.schema import MAX_TTL, WAIT, View
from waggle.corpus import harvest
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.views import graph_kinds, graph_tasks, words
from waggle.corpus.views.native import training_tasks
from waggle.corpus.views.rng import Draw
from waggle.laws.expert import generic, stances


def carried(view: View) -> bool:
    shown = stances.find(view)
    return shown is not None and any(shown.key in row.facts for row in view.private.claims)


@pytest.mark.parametrize("kind", graph_kinds.KINDS)
def test_views_are_bounded_admissible_equivariant_and_the_same_every_time(kind: str) -> None:
    views = list(graph_kinds.views(kind, 3, 100))
    assert [*map(encode_view, views)] == [*map(encode_view, graph_kinds.views(kind, 3, 100))]
    for number, view in enumerate(views):
        check_view(view)
        decision = generic.decide(view)
        assert violations(view, decision) == ()
        g = orbit.sample(view, number)
        assert generic.decide(g.view(view)) == g.decision(decision)


def test_agreement_views_hold_both_goals_and_their_shape_gives_neither_away() -> None:
    found = Counter[tuple[bool, bool, int]]()
    for view in graph_kinds.views("agreed", 5, 1500):
        alike = stances.common_answer(view.contract) is not None
        plain = [a for a in view.contract.actions if a != WAIT]
        found[alike, carried(view), min(len(plain), 3)] += 1
        if alike and view.proposal.action != WAIT:
            decision = generic.decide(view)
            assert (decision.task_action, decision.deposits) == (plain[0], ())
    for carries, actions in ((True, 2), (False, 2), (False, 3)):
        both = found[True, carries, actions], found[False, carries, actions]
        assert min(both) > 0.25 * max(both) > 10


def test_simple_views_are_short_and_depend_on_what_a_contact_says() -> None:
    decided = Counter[bool]()
    for view in graph_kinds.views("eased", 7, 600):
        assert len(view.private.channels) <= 3
        shown = stances.find(view)
        if shown is None or carried(view) or view.proposal.action == WAIT:
            continue
        answer = generic.decide(view).task_action
        plain = [a for a in view.contract.actions if a != WAIT]
        stays = plain[1] if len(plain) == 2 else view.private.observation[shown.key]
        decided[answer == stays] += 1
    assert min(decided.values()) > 0.25 * sum(decided.values())


def test_relay_views_have_several_traces_of_the_first_claim_of_independent_strength() -> None:
    several = relayed = 0
    lives: dict[int, set[int]] = {}
    for plain in graph_kinds.views("relays", 9, 400):
        view = canonical(plain)[0]
        deposits = generic.decide(view).deposits
        if not deposits or deposits[0].ttl == MAX_TTL:
            continue
        relayed += 1
        same = [t for t in view.traces if t.claim == deposits[0].claim]
        several += len({(t.novelty, t.support, t.ttl) for t in same}) > 1
        first = next(t for t in same if t.ttl > 1)
        assert (deposits[0].novelty, deposits[0].ttl) == (first.novelty, first.ttl - 1)
        for trace in same:
            lives.setdefault(trace.novelty, set()).add(trace.ttl)
    assert relayed > 150 and several > relayed / 3
    assert all(len(lives[novelty]) > 2 for novelty in (1, 2, 3, 4))


def test_crowded_views_hold_many_traces_of_every_age() -> None:
    plain, crowded = ([*graph_kinds.views(kind, 6, 200)] for kind in ("linked", "crowded"))
    shares = [sum(len(view.traces) for view in views) / len(views) for views in (plain, crowded)]
    assert shares[1] > 1.6 * shares[0]
    assert {t.ttl for view in crowded for t in view.traces} == set(range(2, MAX_TTL + 1))


def test_pivotal_views_depend_on_one_contact_not_on_the_rank_of_the_node() -> None:
    crowded, pivotal = ([*graph_kinds.views(kind, 7, 600)] for kind in ("crowded", "poised"))
    facts = [[len(port.facts) for v in views for port in v.private.channels]
             for views in (crowded, pivotal)]  # fmt: skip
    assert sum(facts[1]) / len(facts[1]) > 1.4 * sum(facts[0]) / len(facts[0])
    firsts = [_first_answers(views) for views in (crowded, pivotal)]
    assert firsts[0] > 0.7, "drawn at random, a contact before nearly always has the second action"
    assert 0.4 < firsts[1] < 0.6


def _first_answers(views: list[View]) -> float:
    """Return how often, of two actions, a node with others before it takes the first."""
    taken = []
    for view in views:
        shown = stances.find(view)
        actions = [a for a in view.contract.actions if a != WAIT and ":" not in a]
        if shown is None or len(actions) != 2 or shown.own < 2:
            continue
        if not any(shown.key in row.facts for row in view.private.claims):
            taken.append(stances.answer(view, shown) == actions[0])
    return sum(taken) / len(taken)


def test_keys_of_the_training_tasks_mean_something_else_in_some_tasks_on_graphs() -> None:
    known: set[str] = set()
    for task in training_tasks(("swarmbench/pursuit", "swarmbench/foraging", "silo/I-05")):
        job = harvest.Job(Case(task.substrate, task.task, 8, 0, 12), "expert", 1)
        for view, _ in harvest.gather(job, HarvestSettings(n=(8,)), "shuffled"):
            known.update(view.private.observation)
            facts = [port.facts for port in view.private.channels]
            facts += [row.facts for row in view.private.claims]
            known.update(key for row in facts for key in row)
    assert set(words.TEXTS["graphs"]["training_keys"]) <= known
    tasks = [graph_tasks.make_task(Draw(3, "task", number)) for number in range(400)]
    assert {task.stance for task in tasks} >= {"answer", "source"}
    assert all(task.stance != task.order for task in tasks)


def test_of_real_tasks_only_those_on_graphs_show_stances() -> None:
    settings = HarvestSettings(n=(8,))
    for name in ("swarmbench/pursuit", "swarmbench/foraging", "silo/I-05", "silo/II-16", "beacon"):
        task = plugins.find_task(name)
        job = harvest.Job(Case(task.substrate, task.task, 8, 0, 6), "expert", 1)
        views = [view for view, _ in harvest.gather(job, settings, "shuffled")]
        assert all(stances.find(view) is None for view in views)
        placed = task.substrate == "swarmbench"
        assert {generic.names_places(view.contract) for view in views} == {placed}
