"""Disguised and linked views: bounded, reproducible, free of transfer words, labelled by shape."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import pytest

from waggle import plugins
from waggle.core import orbit
from waggle.core.admit import violations
from waggle.core.canon import check_view, encode_view
from waggle.core.protocols import Case, Request
from waggle.core.schema import MAX_TTL, WAIT, Decision, View
from waggle.core.seeds import Split
from waggle.corpus import harvest
from waggle.corpus.curriculum import Curriculum
from waggle.corpus.settings import CorpusSettings, HarvestSettings
from waggle.corpus.views import disguised as disguise
from waggle.corpus.views import linked, made
from waggle.corpus.views import words as vocabulary
from waggle.corpus.views.native import TRAINING, TRANSFER, open_case, training_tasks
from waggle.corpus.views.rng import Draw
from waggle.laws.expert import generic as expert_generic
from waggle.laws.expert import stances

COMMON = frozenset(("that", "your", "with", "must", "then", "first", "only", "each", "every"))
"""Words of every English text; they belong to no task."""
SETTINGS = HarvestSettings(
    tasks=("swarmbench/pursuit", "silo/I-05"), native=2400, synthetic=400, disguised=800,
    linked=300, held_out=8, n=(8,), rounds=20,
)  # fmt: skip


def contracts(names: Iterator[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        substrate, _, task = name.partition("/")
        tasks = [task] if task else plugins.get_substrate(substrate).tasks
        for each in tasks:
            _, world = open_case(Case(substrate, each, 8, 0))
            yield world.contract.goal, " ".join(world.contract.actions)


def words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3}


def decide(view: View) -> Decision:
    (decode,) = plugins.get_law("expert").decide([Request(view)])
    assert isinstance(decode.output, Decision)
    return decode.output


def some_views() -> list[View]:
    return [*islice(made.disguised(5, 12), 60), *made.on_graphs("linked", 6, 60)]


def test_no_word_of_a_transfer_task_is_in_the_lists() -> None:
    trained = set().union(*(words(" ".join(c)) for c in contracts(iter(TRAINING))))
    foreign = set().union(*(words(" ".join(c)) for c in contracts(iter(sorted(TRANSFER)))))
    lists = [getattr(vocabulary, name) for name in dir(vocabulary) if re.fullmatch("_[A-Z]+", name)]
    texts = " ".join(str(text) for some in lists for text in some if isinstance(text, str))
    ours = words(texts + " " + " ".join(disguise._EXPLAINED))
    assert sorted((foreign - trained - COMMON) & ours) == []


def test_made_views_are_bounded_admissible_and_the_same_at_every_call() -> None:
    views = some_views()
    assert [encode_view(v) for v in views] == [encode_view(v) for v in some_views()]
    for view in views:
        check_view(view)
        assert not violations(view, decide(view))
        assert not view.contract.task.endswith(("/pursuit", "/foraging"))


def test_the_teacher_compares_neither_names_nor_places_of_made_views() -> None:
    for number, view in enumerate(some_views()):
        g = orbit.sample(view, number)
        assert decide(g.view(view)) == g.decision(decide(view))


def test_disguised_views_state_the_intent_that_their_claims_call_for() -> None:
    told = Counter[str | None]()
    for view in made.disguised(7, 30):
        sources = {row.facts.get("source") for row in view.private.claims}
        wanted = "FIELD" if "told" in sources and "seen" not in sources else "PRIVATE"
        intent = decide(view).execution_intent
        assert intent == (None if view.proposal.action == WAIT else wanted)
        told[intent] += 1
    assert min(told["FIELD"], told["PRIVATE"]) > 5


def test_a_disguise_keeps_what_is_compared_and_renames_what_is_read() -> None:
    job = harvest.plan(SETTINGS, "train")[0]
    played = [view for view, _ in harvest.gather(job._replace(veiled=0), SETTINGS, "shuffled")]
    changed = 0
    for number, view in enumerate(played):
        look = disguise.look(Draw(1, "look", number), view.contract)
        shown = disguise.disguise(view, look, Draw(1, "view", number))
        assert [p.lot for p in shown.private.channels] == [p.lot for p in view.private.channels]
        assert [(t.channel, t.claim, t.ttl) for t in shown.traces] == [
            (t.channel, t.claim, t.ttl) for t in view.traces
        ]
        assert shown.proposal.action in shown.contract.actions
        assert shown.contract.broadcast and expert_generic.explains_intents(shown.contract)
        changed += shown.proposal.action != view.proposal.action
    assert changed > len(played) / 4


def test_no_real_task_but_one_of_graphs_shows_stances() -> None:
    law = plugins.get_law("expert")
    for task in (*training_tasks(TRAINING)[:4], plugins.find_task("beacon")):
        case, world = open_case(Case(task.substrate, task.task, 8, 0, 6))
        job = harvest.Job(case, "expert", 1)
        assert all(stances.find(v) is None for v, _ in harvest.gather(job, SETTINGS, "shuffled"))
        assert expert_generic.explains_intents(world.contract) == (task.substrate == "swarmbench")
    assert law.name == "expert"


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_harvest_has_its_kinds_in_the_share_it_was_asked_for(split: str) -> None:
    jobs = harvest.plan(SETTINGS, split)
    assert {job.kind for job in jobs} == {"episode", "bundles", "disguised", "linked"}
    assert all(Split.of(job.case.seed) is Split.TRAIN for job in jobs)
    pairs = [(job, pair) for job in jobs for pair in harvest.gather(job, SETTINGS, "shuffled")]
    known = ("swarmbench/pursuit", "silo/I-05")
    found = Counter[str]()
    for job, (view, decision) in pairs:
        assert not violations(view, decision)
        veiled = job.kind == "episode" and view.contract.task not in known
        found["disguised" if veiled else job.kind] += 1
    if split == "train":
        assert 2000 < found["episode"] < 3200 and 500 < found["disguised"] < 1400
        assert found["bundles"] >= 300 and found["linked"] == 300


def test_the_corpus_holds_made_up_tasks_after_everything_else() -> None:
    plain = CorpusSettings(
        tasks=("beacon",), bundles=2, validation=1, test=1, native=4, n=(6,), rounds=6
    )
    more = plain.model_copy(update={"disguised": 20, "linked": 10})
    before, after = Curriculum(plain).examples(), Curriculum(more).examples()
    for split, few in (("train", {"disguised": 20, "linked": 10}),
                       ("test", {"disguised": 2, "linked": 1})):  # fmt: skip
        assert after[split][: len(before[split])] == before[split]
        assert Counter(e.source for e in after[split][len(before[split]) :]) == few


def test_keys_of_the_training_tasks_mean_something_else_in_some_linked_tasks() -> None:
    known: set[str] = set()
    for task in training_tasks(("swarmbench/pursuit", "swarmbench/foraging", "silo/I-05")):
        job = harvest.Job(Case(task.substrate, task.task, 8, 0, 12), "expert", 1)
        for view, _ in harvest.gather(job, SETTINGS, "shuffled"):
            known.update(view.private.observation)
            facts = [port.facts for port in view.private.channels]
            facts += [row.facts for row in view.private.claims]
            known.update(key for row in facts for key in row)
    assert set(linked._BORROWED) <= known
    tasks = [linked.task(Draw(3, "task", number)) for number in range(400)]
    assert {words.stance for words in tasks} >= {"answer", "source"}
    assert all(words.stance != words.order for words in tasks)


def test_crowded_views_hold_many_traces_of_every_age_and_leave_linked_ones_alone() -> None:
    plain, crowded = ([*made.on_graphs(kind, 6, 300)] for kind in ("linked", "crowded"))
    assert [*map(encode_view, plain)] == [*map(encode_view, made.on_graphs("linked", 6, 300))]
    shares = [sum(len(view.traces) for view in views) / len(views) for views in (plain, crowded)]
    assert shares[1] > 1.6 * shares[0]
    assert {t.ttl for view in crowded for t in view.traces} == set(range(2, MAX_TTL + 1))
    for view in crowded:
        check_view(view)
    jobs = harvest.plan(SETTINGS.model_copy(update={"crowded": 300}), "train")
    assert jobs[:-1] == harvest.plan(SETTINGS, "train") and jobs[-1].kind == "crowded"
    pairs = harvest.gather(jobs[-1], SETTINGS, "canonical")
    assert len(pairs) == 300 and not any(violations(*pair) for pair in pairs)


def test_poised_views_hang_on_one_contact_not_on_the_place_in_the_order() -> None:
    crowded, poised = (
        [*views] for views in (made.on_graphs(kind, 7, 900) for kind in ("crowded", "poised"))
    )
    facts = [[len(port.facts) for v in views for port in v.private.channels]
             for views in (crowded, poised)]  # fmt: skip
    assert sum(facts[1]) / len(facts[1]) > 1.4 * sum(facts[0]) / len(facts[0])
    firsts = [_first_answers(views) for views in (crowded, poised)]
    assert firsts[0] > 0.7, "drawn at random, a contact before nearly always has the second action"
    assert 0.4 < firsts[1] < 0.6
    jobs = harvest.plan(SETTINGS.model_copy(update={"poised": 300}), "train")
    assert jobs[:-1] == harvest.plan(SETTINGS, "train") and jobs[-1].kind == "poised"
    pairs = harvest.gather(jobs[-1], SETTINGS, "shuffled")
    assert len(pairs) == 300 and not any(violations(*pair) for pair in pairs)


def _first_answers(views: list[View]) -> float:
    """Of local tasks with two actions, how often a node with others before it takes the first."""
    taken = []
    for view in views:
        shown = stances.find(view)
        actions = [a for a in view.contract.actions if a != WAIT and ":" not in a]
        if shown is None or len(actions) != 2 or shown.own < 2:
            continue
        if not any(shown.key in row.facts for row in view.private.claims):
            taken.append(stances.answer(view, shown) == actions[0])
    return sum(taken) / len(taken)
