"""Eased, relayed and agreed views: what each holds, and that agreement is told from near misses."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from waggle.core import orbit
from waggle.core.admit import violations
from waggle.core.canon import check_view, encode_view
from waggle.core.order import canonical
from waggle.core.protocols import Case
from waggle.core.schema import MAX_TTL, WAIT, View
from waggle.corpus import harvest
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.views import goals, made
from waggle.corpus.views.native import open_case
from waggle.corpus.views.rng import Draw
from waggle.laws.expert import generic as expert_generic
from waggle.laws.expert import stances

NEW = ("eased", "relays", "agreed")
PLAIN = HarvestSettings(tasks=("silo/I-05",), native=100, poised=300, n=(8,))


def carried(view: View) -> bool:
    shown = stances.find(view)
    return shown is not None and any(shown.key in row.facts for row in view.private.claims)


def runs(text: str, size: int = 4) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z]+", text.lower())
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


@pytest.mark.parametrize("kind", NEW)
def test_views_are_bounded_admissible_equivariant_and_the_same_every_time(kind: str) -> None:
    views = list(made.on_graphs(kind, 3, 200))
    assert [*map(encode_view, views)] == [*map(encode_view, made.on_graphs(kind, 3, 200))]
    for number, view in enumerate(views):
        check_view(view)
        decision = expert_generic.decide(view)
        assert violations(view, decision) == ()
        g = orbit.sample(view, number)
        assert expert_generic.decide(g.view(view)) == g.decision(decision)


def test_goals_of_agreement_are_told_from_near_misses_that_use_its_words() -> None:
    alike = [goals.alike(Draw(1, "alike", i), ("IN", "OUT")) for i in range(600)]
    misses = [goals.apart(Draw(1, "apart", i), ("IN", "OUT", "BY")) for i in range(600)]
    misses += [goals.single(Draw(1, "one", i), ("IN", "OUT")) for i in range(600)]
    misses += [goals.edges(Draw(1, "edges", i), ("IN", "OUT")) for i in range(600)]
    assert all(map(stances.alike, alike))
    assert not any(map(stances.alike, misses))
    assert len(set(alike)) > 500
    for word in ("same", "all"):
        assert sum(word in re.findall("[a-z]+", goal.lower()) for goal in misses) > 300


def test_no_goal_holds_four_words_in_a_row_of_a_transfer_contract() -> None:
    said: set[tuple[str, ...]] = set()
    for task in ("coloring", "consensus", "leader_election", "matching", "vertex_cover"):
        said |= runs(open_case(Case("agentsnet", task, 8, 10_000))[1].contract.goal)
    for i in range(3000):
        draw = Draw(2, "goal", i)
        pair = ("Yes", "No")
        made_up = [goals.alike(draw, pair), goals.other(draw, ("a", "b", "c"), told=False)]
        made_up += [goals.other(draw, pair, told=told) for told in (False, True)]
        assert not any(runs(goal) & said for goal in made_up)


def test_agreed_views_hold_both_and_the_shape_gives_neither_away() -> None:
    found = Counter[tuple[bool, bool, int]]()
    for view in made.on_graphs("agreed", 5, 1500):
        alike = stances.common_answer(view.contract) is not None
        plain = [a for a in view.contract.actions if a != WAIT]
        found[alike, carried(view), min(len(plain), 3)] += 1
        if alike and view.proposal.action != WAIT:
            decision = expert_generic.decide(view)
            assert (decision.task_action, decision.deposits) == (plain[0], ())
    for told, actions in ((True, 2), (False, 2), (False, 3)):
        both = found[True, told, actions], found[False, told, actions]
        assert min(both) > 0.25 * max(both) > 10


def test_eased_views_are_short_and_hang_on_what_a_contact_says() -> None:
    decided = Counter[bool]()
    for view in made.on_graphs("eased", 7, 600):
        assert len(view.private.channels) <= 3
        shown = stances.find(view)
        if shown is None or carried(view) or view.proposal.action == WAIT:
            continue
        answer = expert_generic.decide(view).task_action
        plain = [a for a in view.contract.actions if a != WAIT]
        stays = plain[1] if len(plain) == 2 else view.private.observation[shown.key]
        decided[answer == stays] += 1
    assert min(decided.values()) > 0.25 * sum(decided.values())


def test_relays_have_several_traces_of_the_first_claim_whose_numbers_do_not_follow() -> None:
    several = relayed = 0
    lives: dict[int, set[int]] = {}
    for plain in made.on_graphs("relays", 9, 400):
        view = canonical(plain)[0]
        deposits = expert_generic.decide(view).deposits
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


@pytest.mark.parametrize("split", ["train", "validation"])
def test_they_come_last_in_a_harvest_and_leave_the_others_alone(split: str) -> None:
    more = PLAIN.model_copy(update=dict.fromkeys(NEW, 300))
    before, after = harvest.plan(PLAIN, split), harvest.plan(more, split)
    assert after[: len(before)] == before
    assert {job.kind for job in after[len(before) :]} == set(NEW)
    assert not set(NEW) & set(PLAIN.model_dump(mode="json"))
    job = after[-1]
    assert len(harvest.gather(job, more, "canonical")) == harvest.LINKED
