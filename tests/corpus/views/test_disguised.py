"""Disguised views: bounded, reproducible, free of transfer words, labelled by shape."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from waggle import plugins
from waggle.core import orbit
from waggle.core.admit import violations
from waggle.core.canon import check_view, encode_view
from waggle.core.protocols import Case, Request
from waggle.core.relations import refuted
from waggle.core.schema import (
    CLAIM_ARGUMENT,
    Decision,
    View,
    action_argument,
    is_wait,
    takes_claim,
)
from waggle.corpus import harvest
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.views import disguised, words
from waggle.corpus.views.native import TRAINING, TRANSFER, open_case
from waggle.corpus.views.rng import Draw
from waggle.laws.expert import generic

COMMON = frozenset(("that", "your", "with", "must", "then", "first", "only", "each", "every"))
"""Words of every English text; they belong to no task."""
SETTINGS = HarvestSettings(tasks=("swarmbench/pursuit",), native=200, n=(8,), rounds=20)


def contracts(names: Iterator[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        substrate, _, task = name.partition("/")
        tasks = [task] if task else plugins.get_substrate(substrate).tasks
        for each in tasks:
            _, world = open_case(Case(substrate, each, 8, 0))
            yield world.contract.goal, " ".join(world.contract.actions)


def long_words(text: str) -> set[str]:
    return {word for word in re.findall(r"[a-z]+", text.lower()) if len(word) > 3}


def decide(view: View) -> Decision:
    (decode,) = plugins.get_law("expert").decide([Request(view)])
    assert isinstance(decode.output, Decision)
    return decode.output


def some_views() -> list[View]:
    return list(islice(disguised.bundles(5, 12), 60))


def test_no_word_of_a_transfer_task_is_in_the_lists() -> None:
    trained = set().union(*(long_words(" ".join(c)) for c in contracts(iter(TRAINING))))
    foreign = set().union(*(long_words(" ".join(c)) for c in contracts(iter(sorted(TRANSFER)))))
    ours = long_words(str([words.TEXTS[part] for part in ("words", "disguised")]))
    assert len(ours) > 80 and sorted((foreign - trained - COMMON) & ours) == []


def test_made_up_views_are_bounded_admissible_and_the_same_at_every_call() -> None:
    views = some_views()
    assert [encode_view(v) for v in views] == [encode_view(v) for v in some_views()]
    for view in views:
        check_view(view)
        assert not violations(view, decide(view))
        assert not view.contract.task.endswith(("/pursuit", "/foraging"))


def test_the_teacher_reads_neither_names_nor_positions_of_made_up_views() -> None:
    for number, view in enumerate(some_views()):
        g = orbit.sample(view, number)
        assert decide(g.view(view)) == g.decision(decide(view))


def test_disguised_views_follow_a_dated_place_where_nothing_is_seen() -> None:
    followed = Counter[bool]()
    for view in disguised.bundles(7, 30):
        rows = {row.claim: row.facts for row in view.private.claims}
        seen = any(facts.get("source") == "seen" for facts in rows.values())
        dated = [z for z, facts in rows.items() if {"down", "age"} <= set(facts)]
        open_to = [z for z in dated if z not in refuted(view)]
        decision = decide(view)
        verb, claim = action_argument(decision.task_action)
        if claim is None:
            assert decision.task_action == view.proposal.action
            lone = len(open_to) == 1 and not seen and not is_wait(decision)
            assert not lone, "the only place with an age is worth the way"
        else:
            assert f"{verb}:{CLAIM_ARGUMENT}" in view.contract.actions
            assert claim in open_to and not seen
        followed[claim is not None] += 1
    assert min(followed[True], followed[False]) > 20


def test_every_disguise_says_which_action_follows_a_claim() -> None:
    for number in range(100):
        contract = disguised.make_disguise(Draw(2, "look", number)).contract
        (verb,) = [action_argument(a)[0] for a in contract.actions if takes_claim(a)]
        assert verb in contract.goal


def test_a_disguise_keeps_what_is_compared_and_renames_what_is_read() -> None:
    job = harvest.plan(SETTINGS, "train")[0]
    played = [view for view, _ in harvest.gather(job._replace(disguised=0), SETTINGS, "shuffled")]
    changed = 0
    for number, view in enumerate(played):
        disguise = disguised.make_disguise(Draw(1, "look", number), view.contract)
        shown = disguised.apply(view, disguise, Draw(1, "view", number))
        assert [p.lot for p in shown.private.channels] == [p.lot for p in view.private.channels]
        assert [(t.channel, t.claim, t.ttl) for t in shown.traces] == [
            (t.channel, t.claim, t.ttl) for t in view.traces
        ]
        assert shown.proposal.action in shown.contract.actions
        assert shown.contract.broadcast and generic.names_places(shown.contract)
        changed += shown.proposal.action != view.proposal.action
    assert changed > len(played) / 4
