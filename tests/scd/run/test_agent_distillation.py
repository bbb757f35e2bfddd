"""Agent Distillation: which trajectories are kept, what carries loss, what the student plays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backbones import save_backbone
from waggle import plugins
from waggle.baselines.peers.agent_distillation import Transient, agentdistill, transient
from waggle.core.canon import decode_view, encode_decision
from waggle.core.protocols import Case, Decode, Request
from waggle.core.schema import Commitment, Decision, Trace
from waggle.corpus.store import CorpusError, Store
from waggle.models.nano import nano_tokenizer
from waggle.runtime.recorder import Memory
from waggle.runtime.sync import Engine
from waggle.scd.config import Adaptation, Run, StageOne
from waggle.scd.data.encode import EncodedCorpus
from waggle.scd.run.agent_distillation import (
    DistillRecipe,
    TrajectorySettings,
    budget,
    collect,
    distil,
    ended_well,
    planned,
)

SMALL = TrajectorySettings(
    tasks=("silo/I-04",), train=6, validation=2, turns=4, spread=2, n=(4,), epochs=2
)


def play(law: Any, case: Case) -> tuple[Any, Any]:
    memory, world = Memory(), plugins.get_substrate(case.substrate).open(case)
    Engine(world, law, case, sinks=[memory]).play()
    return memory.record(), world


def test_windows_of_consecutive_turns_of_training_seeds_are_kept() -> None:
    rows = collect(SMALL)
    assert rows == collect(SMALL)
    assert {split: len(some) for split, some in rows.items()} == {"train": 24, "validation": 8}
    keys = [example.key.split(":") for example in rows["train"]]
    for start in range(0, 24, 4):
        one = keys[start : start + 4]
        first = int(one[0][3])
        assert [key[:3] + key[4:] for key in one] == [one[0][:3] + one[0][4:]] * 4
        assert [int(key[3]) for key in one] == list(range(first, first + 4))
    assert all(int(key[2]) < 6_000 for key in keys)
    for example in rows["train"]:
        assert example.decision is not None
        assert example.decision.commit is None
        assert all(d.ttl == 1 and not d.conflict for d in example.decision.deposits)


def test_what_ended_badly_is_left_out() -> None:
    case = Case("silo", "III-26", 16, 10_000, 5)
    record, world = play(Transient(plugins.get_law("expert")), case)
    score = record.footer.scores["score"]
    right = [world.share(node) for node in range(16)]
    assert 0 < sum(right) < 16
    assert [ended_well(world, node, score) for node in range(16)] == [r == 1 for r in right]
    spatial = plugins.get_substrate("swarmbench").open(Case("swarmbench", "pursuit", 8, 10_000))
    assert ended_well(spatial, 0, 1.0)
    assert not ended_well(spatial, 0, 0.0)


def test_a_teacher_that_never_succeeds_is_an_error() -> None:
    hard = {"tasks": ("silo/III-26",), "train": 1, "spread": 1, "n": (8,), "rounds": 2}
    with pytest.raises(CorpusError, match="too seldom"):
        collect(SMALL.model_copy(update={**hard, "teacher": "private-only"}))


class Broken:
    """A teacher that writes no record in one update of one node."""

    name = "broken"

    def __init__(self) -> None:
        self.inner = plugins.get_law("expert")
        self.asked: list[int] = []

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        self.asked.append(len(requests))
        found = list(self.inner.decide(requests))
        return [Decode("no record"), *found[1:]]


def test_a_decode_that_fails_is_not_asked_for_again() -> None:
    law = Broken()
    record, _ = play(Transient(law), Case("silo", "I-04", 4, 10_000))
    assert law.asked == [4] * 10
    stages = [entry.updates[0].stage for entry in record.rounds]
    assert set(stages) == {"regenerated"}
    assert all(not entry.updates[0].decision.deposits for entry in record.rounds)


def test_the_transient_form_holds_nothing() -> None:
    kept, challenge = Trace("c", "z", 4, 4, 0, 8, None), Trace("c", "z", 4, 0, 4, 8, None)
    held = Decision("FOLLOW:z", None, (kept, challenge), Commitment("z", 4), "FIELD")
    found = transient(held)
    assert found == Decision("FOLLOW:z", None, (Trace("c", "z", 4, 4, 0, 1, None),), None)
    assert transient(found) == found


def test_loss_is_on_the_teachers_decision_alone(tmp_path: Path) -> None:
    rows = collect(SMALL)
    store = Store(tmp_path / "corpus")
    store.write("decisions", rows, {})
    tokenizer = nano_tokenizer()
    with EncodedCorpus(tmp_path, store, tokenizer, "shuffled", longest=4096) as corpus:
        encoded = corpus.decisions("train")
    starts = np.cumsum(encoded.lengths) - encoded.lengths
    for example, start, length, prompt in zip(
        rows["train"], starts, encoded.lengths, encoded.prompts, strict=True
    ):
        shown = tokenizer.decode(encoded.ids[start : start + prompt])
        learned = tokenizer.decode(encoded.ids[start + prompt : start + length])
        assert example.decision is not None
        assert learned.startswith(encode_decision(example.decision).decode())
        assert decode_view(bytes(example.view)).proposal.action in shown


def test_epochs_fix_the_updates(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write("decisions", collect(SMALL), {})
    recipe = DistillRecipe(trajectories=SMALL, stage_one=StageOne(batch=8))
    assert planned(recipe, store).stage_one.updates == 2 * 24 // 8
    assert budget(SMALL, 8) == {"trajectories": 8, "turns": 24, "updates": 6}


def test_a_student_learns_its_trajectories_and_plays(tmp_path: Path) -> None:
    backbone = save_backbone(tmp_path / "backbone", nano_tokenizer())
    recipe = DistillRecipe(
        name="tiny",
        backbone=str(backbone),
        order="canonical",
        max_context=4096,
        trajectories=SMALL.model_copy(update={"epochs": 8}),
        adaptation=Adaptation(rank=8, alpha=16),
        stage_one=StageOne(batch=8, rate=1e-2, rate_warm_up=0),
        run=Run(device="cpu", dtype="float32", evaluate_every=6, save_every=100),
    )
    seen: list[float] = []

    def watch(update: int, updates: int, values: Any) -> None:
        seen.extend([values["validation.nll"]] if "validation.nll" in values else [])

    law = distil(recipe, tmp_path / "run", watch=watch)
    assert seen[-1] < seen[0] - 0.5
    assert distil(recipe, tmp_path / "run") == law
    more = recipe.trajectories.model_copy(update={"turns": 5})
    with pytest.raises(CorpusError, match="trajectories of other settings; choose another --out"):
        distil(recipe.model_copy(update={"trajectories": more}), tmp_path / "run")
    card = (law / "README.md").read_text()
    assert "| stage one | 24 updates of 8 records |" in card and "stage two" not in card
    assert "| corpus | 6 trajectories that ended well, at most 4 turns of each, 8 epochs |" in card
    student = agentdistill(str(law), device="cpu")
    record, _ = play(student, Case("silo", "I-04", 4, 10_000, 2))
    assert student.digest
    assert (student.order, student.teacher) == ("canonical", "expert")
    assert record.footer.counters["calls"] == (2 + 1) * 4
