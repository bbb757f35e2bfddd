"""Splits before labels, training seeds only, no transfer task, teachers that can fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from waggle import plugins
from waggle.core.canon import decode_view
from waggle.core.errors import ConfigError, SeedError
from waggle.core.protocols import Case, Decode, Request, World
from waggle.core.schema import Decision
from waggle.core.seeds import Split
from waggle.corpus import curriculum, transitions
from waggle.corpus.curriculum import Curriculum, assign
from waggle.corpus.datasheet import datasheet
from waggle.corpus.settings import CorpusSettings, TransitionSettings
from waggle.corpus.store import CorpusError, Store
from waggle.corpus.teacher import label, make_teacher
from waggle.corpus.views.native import TRANSFER, open_case, play, training_tasks

SMALL = CorpusSettings(
    tasks=("beacon",), bundles=3, validation=2, test=1, native=6, n=(6,), rounds=6
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    examples = Curriculum(SMALL).examples()
    Store(folder).write("views", examples, SMALL.model_dump(mode="json"))
    return folder


def test_the_default_corpus_has_the_sizes_of_the_paper() -> None:
    settings = CorpusSettings()
    dealt = assign(settings)
    assert {k: 8 * len(v) for k, v in dealt.items()} == {
        "train": 6400, "validation": 800, "test": 800,
    }  # fmt: skip
    assert 8 * len(dealt["train"]) + settings.native == 6912 == 2 * 3456
    assert TransitionSettings().train == 14_256 and TransitionSettings().validation == 4_752


def test_bundles_belong_to_one_split_and_hold_each_class_once(built: Path) -> None:
    home: dict[int, str] = {}
    for split in ("train", "validation", "test"):
        rows = [e for e in Store(built).examples("views", split) if e.bundle is not None]
        classes = Counter((e.bundle, e.situation) for e in rows)
        assert set(classes.values()) == {1}
        for e in rows:
            assert e.bundle is not None and home.setdefault(e.bundle, split) == split
    assert set(Counter(home.values()).items()) == {("train", 3), ("validation", 2), ("test", 1)}


def test_the_same_settings_give_the_same_corpus(built: Path) -> None:
    again = Curriculum(SMALL).examples()
    assert list(Store(built).examples("views", "train")) == again["train"]


def test_kept_families_are_those_of_the_whole_corpus() -> None:
    both = CorpusSettings(
        tasks=("beacon", "swarmbench/pursuit"), bundles=2, validation=1, test=1, native=4, n=(6,),
        rounds=2,
    )  # fmt: skip
    whole = Curriculum(both).examples()
    kept = Curriculum(both.model_copy(update={"families": ("beacon",)})).examples()
    for split, examples in whole.items():
        assert kept[split] == [e for e in examples if e.family == "beacon"]
    assert 0 < len(kept["train"]) < len(whole["train"])
    with pytest.raises(ConfigError, match="'silo', of which `tasks` has none"):
        Curriculum(both.model_copy(update={"families": ("silo",)}))


@pytest.mark.parametrize("name", ["agentsnet", "swarmbench/flocking", "swarmbench"])
def test_transfer_tasks_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="transfer task"):
        training_tasks([name])
    assert "swarmbench/transport" in TRANSFER


def test_every_collection_seed_is_a_training_seed() -> None:
    for pools in (curriculum.SEEDS, transitions.SEEDS):
        ranges = list(pools.values())
        assert all(Split.of(r[0]) is Split.of(r[-1]) is Split.TRAIN for r in ranges)
        assert sum(map(len, ranges)) == len({s for r in ranges for s in r})
    beacon = plugins.find_task("beacon")
    for split in Split:
        if split is not Split.TRAIN:
            with pytest.raises(SeedError, match="may not be used"):
                play(beacon, plugins.get_law("expert"), 6, split.start)


def test_the_expert_labels_everything_and_the_datasheet_counts_it(built: Path) -> None:
    store = Store(built)
    done = label(store, make_teacher("expert", {}))
    assert done.refused == 0 and done.kept == 6 * 8 + 6
    counts = datasheet(store).plain()["decisions"]["train"]
    assert counts["records"]["all"] == 30 and counts["source"] == {"native": 6, "synthetic": 24}
    assert set(counts["situation"].values()) == {3, 6}
    assert sum(counts["mode"].values()) == 30
    assert sum(1 for aspect in counts if aspect.startswith("rho ")) == 12


class Prose:
    """A teacher that answers with prose, or fails after some views."""

    name = "prose"

    def __init__(self, good: int = 0) -> None:
        self.good, self.asked = good, 0

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        answers = []
        for _ in requests:
            self.asked += 1
            text = '{"task_action":"WAIT","response":null,"deposits":[],"commit":null}'
            answers.append(Decode(text if self.asked <= self.good else "I would rather wait."))
        return answers


def test_a_teacher_of_prose_labels_nothing_and_says_so(built: Path) -> None:
    before = Store(built).manifest()
    with pytest.raises(CorpusError, match="no admissible record") as error:
        label(Store(built), Prose())
    assert "\n" not in str(error.value)
    assert Store(built).manifest() == before


def test_kept_answers_are_not_asked_for_again(built: Path) -> None:
    first = Prose(good=40)
    with pytest.raises(CorpusError):
        label(Store(built), first)
    answers = built / "answers-prose.jsonl"
    answers.write_bytes(answers.read_bytes()[:-3])  # the last one was being written
    second, third = Prose(good=1000), Prose()
    assert label(Store(built), second).kept == 54
    assert second.asked == 54 - 39
    assert label(Store(built), third).kept == 54 and not third.asked
    lines = [line.split("\t") for line in answers.read_text().splitlines() if line]
    answers.write_text("".join(f"\n{line[0]}\t{line[-1]}" for line in lines))  # as in 0.1.0
    assert label(Store(built), third).kept == 54 and not third.asked


def test_other_views_of_a_corpus_are_labelled_anew(tmp_path: Path) -> None:
    def labelled(name: str, *seeds: int) -> list[object]:
        store, teacher = Store(tmp_path / name), plugins.get_law("heuristic")
        for seed in seeds:
            settings = SMALL.model_copy(update={"bundles": 20, "made_up": 0, "seed": seed})
            store.write("views", Curriculum(settings).examples(), {"seed": seed})
            assert list(store.manifest().parts) == ["views"], "no decision on other views is left"
            label(store, teacher)
            kept = store.manifest()
            store.write("views", Curriculum(settings).examples(), {"seed": seed})
            assert store.manifest() == kept
        return list(store.examples("decisions", "train"))

    assert labelled("again", 0, 1) == labelled("new", 1)


def test_transitions_join_adjacent_views_of_one_node(tmp_path: Path) -> None:
    settings = TransitionSettings(
        tasks=("beacon",), train=20, validation=8, probe=8, test=8, n=(8,), rounds=10, episodes=8
    )
    store = Store(tmp_path)
    sizes = transitions.write(store, settings, plugins.get_law("expert"))
    rows = list(store.transitions("train"))
    assert sizes["train"] == len(rows) <= 20
    assert {bool(t.events) for t in rows} == {True, False}
    for t in rows:
        now, then = decode_view(bytes(t.view)), decode_view(bytes(t.next))
        assert now.contract == then.contract
        assert {p.channel for p in now.private.channels} == {
            p.channel for p in then.private.channels
        }
        assert now.budget >= then.budget


def test_a_transition_is_the_record_of_its_episode() -> None:
    beacon = plugins.find_task("beacon")
    record = play(beacon, plugins.get_law("heuristic"), 6, 3, rounds=5)
    rows = list(transitions.adjacent(record))
    assert len(rows) == 6 * 4
    first = record.rounds[0].updates[0]
    assert rows[0].decision == first.decision
    assert isinstance(rows[0].decision, Decision)
    after = next(u for u in record.rounds[1].updates if u.node == first.node)
    assert bytes(rows[0].next).endswith(bytes(after.view)[1:])


def test_everything_is_the_same_with_several_processes(built: Path) -> None:
    assert Curriculum(SMALL).examples(workers=2) == Curriculum(SMALL).examples()

    def labelled(workers: int) -> list[object]:
        store = Store(built)
        label(store, make_teacher("expert", {}), workers=workers, fresh=True)
        return [e for split in ("train", "test") for e in store.examples("decisions", split)]

    settings = TransitionSettings(
        tasks=("beacon",), law="expert", train=40, validation=16, probe=0, test=0, n=(6,),
        rounds=8, together=2, spread=6,
    )  # fmt: skip
    expert = plugins.get_law("expert")
    assert labelled(1) == labelled(2)
    alone = transitions.collect(settings, expert)
    assert alone == transitions.collect(settings, expert, workers=2)
    assert {split: len(some) for split, some in alone.items()} == {"train": 40, "validation": 16}


def test_the_corpus_holds_made_up_tasks_after_everything_else() -> None:
    plain = CorpusSettings(
        tasks=("beacon",), bundles=2, validation=1, test=1, native=4, n=(6,), rounds=6
    )
    more = plain.model_copy(update={"disguised": 20, "far": 10})
    before, after = Curriculum(plain).examples(), Curriculum(more).examples()
    for split, few in (("train", {"disguised": 20, "far": 10}),
                       ("test", {"disguised": 2, "far": 1})):  # fmt: skip
        assert after[split][: len(before[split])] == before[split]
        assert Counter(e.source for e in after[split][len(before[split]) :]) == few


def test_the_datasheet_counts_views_without_a_situation_by_their_source(tmp_path: Path) -> None:
    more = SMALL.model_copy(update={"disguised": 20, "far": 10})
    store = Store(tmp_path)
    store.write("views", Curriculum(more).examples(), more.model_dump(mode="json"))
    counts = datasheet(store).plain()["decisions"]["train"]["situation"]
    assert (counts["native"], counts["disguised"], counts["far"]) == (6, 20, 10)


def test_an_episode_that_is_drawn_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {split: seeds[:1] for split, seeds in transitions.SEEDS.items()}
    monkeypatch.setattr(transitions, "SEEDS", few)
    settings = TransitionSettings(
        tasks=("beacon",), train=200, validation=0, probe=0, test=0, n=(6, 8), rounds=6, episodes=6
    )
    keys = [t.key for t in transitions.collect(settings, plugins.get_law("expert"))["train"]]
    assert len({key.rpartition(":")[0].split(":")[1] for key in keys}) == 2, "both sizes"
    assert len(keys) == len(set(keys))


def test_every_task_has_late_counterevidence_in_some_episodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: set[tuple[str, bool]] = set()

    def noted(case: Case) -> tuple[Case, World]:
        opened.add((case.task, case.shock))
        return open_case(case)

    monkeypatch.setattr(transitions, "open_case", noted)
    settings = TransitionSettings(
        tasks=("swarmbench/pursuit", "swarmbench/foraging", "beacon"), train=100, validation=0,
        probe=0, test=0, n=(4,), rounds=2, episodes=32, spread=32,
    )  # fmt: skip
    transitions.collect(settings, plugins.get_law("private-only"))
    tasks = ("pursuit", "foraging", "beacon")
    assert opened == {(task, late) for task in tasks for late in (False, True)}
