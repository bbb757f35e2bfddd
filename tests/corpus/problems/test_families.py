"""Families of local graph problems: right labels, apart from each other and transfer tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from waggle import plugins
from waggle.core import orbit
from waggle.core.admit import violations
from waggle.core.canon import check_view, encode_decision, encode_view
from waggle.core.order import canonical
from waggle.core.schema import WAIT, Decision
from waggle.corpus import harvest
from waggle.corpus.curriculum import RULE, Curriculum
from waggle.corpus.problems import far, near
from waggle.corpus.problems.families import FAMILIES, GOALS, PROBLEMS, make_task, pairs
from waggle.corpus.problems.play import Episode, decide, draw_graph, rounds_for
from waggle.corpus.settings import CorpusSettings, HarvestSettings
from waggle.corpus.store import Store
from waggle.corpus.teacher import label
from waggle.corpus.views.rng import Draw
from waggle.substrates.agentsnet.tasks import TASKS, contract


def episodes(name: str, count: int) -> Iterator[Episode]:
    problem = PROBLEMS[name]
    for number in range(count):
        draw = Draw(7, "closed loop", name, number)
        graph = draw_graph(draw, problem.degree)
        yield Episode(draw, make_task(draw, problem), graph, rounds_for(problem, graph))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_rule_solves_its_problem_in_closed_loop(name: str) -> None:
    assert all(episode.play() for episode in episodes(name, 8))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_check_refuses_proposals_without_a_message(name: str) -> None:
    solved = 0
    for episode in episodes(name, 12):
        views = [episode.view(node) for node in range(len(episode.graph))]
        episode.step([Decision(view.proposal.action, None, (), None) for view in views])
        solved += episode.task.problem.check(episode)
    assert solved < 12


@pytest.mark.parametrize("family", FAMILIES)
def test_views_are_bounded_labels_admissible_and_equivariant(family: str) -> None:
    made = list(pairs(family, 3, 120))
    again = list(pairs(family, 3, 120))
    assert len(made) == 120
    assert [encode_view(v) + encode_decision(d) for v, d in made] == [
        encode_view(v) + encode_decision(d) for v, d in again
    ]
    for view, decision in made:
        check_view(view)
        assert not violations(view, decision)
    kinds = Counter(decision.task_action == WAIT for _, decision in made)
    assert kinds[False] > 80


def test_a_label_follows_its_view_under_other_names() -> None:
    for name in PROBLEMS:
        for episode in episodes(name, 3):
            for update in range(6):
                views = [episode.view(node) for node in range(len(episode.graph))]
                decisions = [decide(episode.task, view) for view in views]
                for view, decision in zip(views, decisions, strict=True):
                    image = orbit.sample(view, update)
                    assert decide(episode.task, image.view(view)) == image.decision(decision)
                episode.step(decisions)


def test_families_are_apart_and_every_problem_has_wordings() -> None:
    names = [name for some in FAMILIES.values() for name in some]
    assert len(names) == len(set(names)) == len(far.PROBLEMS) + len(near.PROBLEMS) == 13
    assert set(GOALS["problems"]) == set(names)
    assert all(len(set(texts)) >= 4 for texts in GOALS["problems"].values())


def test_no_four_words_in_a_row_are_those_of_a_transfer_contract() -> None:
    def runs(text: str) -> set[tuple[str, ...]]:
        plain = "".join(c if c.isalnum() else " " for c in text.lower()).split()
        return {tuple(plain[i : i + 4]) for i in range(len(plain) - 3)}

    theirs = set().union(*(runs(contract(task, 5, True).goal) for task in TASKS))
    for texts in (*GOALS["problems"].values(), GOALS["turn"], GOALS["telling"], GOALS["public"]):
        for text in texts:
            assert not runs(text) & theirs, text


def test_a_corpus_has_families_with_their_labels_and_development_only_in_test(
    tmp_path: Path,
) -> None:
    settings = CorpusSettings(
        tasks=("beacon",), bundles=1, validation=1, test=1, native=2, far=20, near=10,
        development=12, n=(4,), rounds=3,
    )  # fmt: skip
    store = Store(tmp_path / "corpus")
    store.write("views", Curriculum(settings).examples(), settings.model_dump(mode="json"))
    label(store, plugins.get_law("expert"))
    for split, wanted in (("train", (20, 10, 0)), ("validation", (2, 1, 0)), ("test", (2, 1, 12))):
        rows = list(store.examples("decisions", split))
        found = Counter(row.source for row in rows)
        assert tuple(found[name] for name in FAMILIES) == wanted
        assert {row.teacher for row in rows if row.source in FAMILIES} == {RULE}


def test_a_harvest_has_the_family_that_its_recipe_chooses() -> None:
    settings = HarvestSettings(tasks=("beacon",), far=400)
    jobs = harvest.plan(settings, "train")
    assert {job.kind for job in jobs} == {"far"}
    view, decision = harvest.gather(jobs[0], settings, "canonical")[5]
    assert canonical(view)[0] == view and not violations(view, decision)
