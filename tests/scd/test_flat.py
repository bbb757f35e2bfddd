"""Flat batches and the token corpus: same losses as alone, same arrays whatever the workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from waggle.corpus.settings import HarvestSettings
from waggle.corpus.store import CorpusError
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Adaptation, Recipe, Run, StageOne
from waggle.scd.data import flats as flats_module
from waggle.scd.data import harvest as reaping
from waggle.scd.data import tokenstore
from waggle.scd.data.flats import Flats
from waggle.scd.data.speller import Speller, Tokens
from waggle.scd.data.stored import Stored
from waggle.scd.data.tokens import Coder
from waggle.scd.forward.forward import run
from waggle.scd.model import Student
from waggle.scd.run.stages import Stages
from waggle.scd.train.optimizer import rate_factor
from waggle.scd.train.sprint import nll_of

SETTINGS = HarvestSettings(
    tasks=("beacon",), native=120, synthetic=200, held_out=8, n=(6,), rounds=6, made_up=50
)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens") / "one"
    tokenstore.make(folder, SETTINGS, nano_tokenizer(), "canonical", longest=1024)
    return folder / "canonical"


def recipe(backbone: Path, **stage: float) -> Recipe:
    return Recipe(
        backbone=str(backbone), order="canonical", max_context=1024, harvest=SETTINGS,
        adaptation=Adaptation(kind="full"),
        stage_one=StageOne.model_validate({"updates": 6, "batch": 4, "rate": 1e-2,
                                           "rate_warm_up": 1, **stage}),
        run=Run(device="cpu", dtype="float32", flat=True, evaluate_every=3, save_every=3,
                validation_records=8),
    )  # fmt: skip


@pytest.mark.usefixtures("workers")
def test_the_harvest_is_the_same_whatever_the_workers(tokens: Path, tmp_path: Path) -> None:
    shared = tokenstore.make(
        tmp_path / "two", SETTINGS, nano_tokenizer(), "canonical", longest=1024, workers=2
    )
    alone = tokenstore.read(tokens)
    for split in tokenstore.SPLITS:
        for one, other in zip(alone[split], shared[split], strict=True):
            assert np.array_equal(one, other)


def test_both_orders_come_from_one_harvest(tokens: Path, tmp_path: Path) -> None:
    both = SETTINGS.model_copy(update={"orders": ("canonical", "shuffled")})
    made = tokenstore.make(tmp_path, both, nano_tokenizer(), "shuffled", longest=1024)
    alone, beside = tokenstore.read(tokens), tokenstore.read(tmp_path / "canonical")
    for split in tokenstore.SPLITS:
        for one, other in zip(alone[split], beside[split], strict=True):
            assert np.array_equal(one, other)
        assert len(made[split]) >= len(beside[split])
    assert len(tokenstore.found(tmp_path, nano_tokenizer(), "shuffled")["train"]) == len(
        made["train"]
    )
    with pytest.raises(CorpusError, match="no tokens in shuffled order"):
        tokenstore.found(tokens.parent, nano_tokenizer(), "shuffled")


def test_a_killed_harvest_goes_on_with_what_is_missing(
    tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaping, "PART", 60)
    done: list[int] = []

    def killed(_what: str, number: int, _total: int) -> None:
        done.append(number)
        if len(done) == 2:
            raise KeyboardInterrupt

    def make(tell: reaping.Tell) -> dict[str, Tokens]:
        return tokenstore.make(
            tmp_path, SETTINGS, nano_tokenizer(), "canonical", longest=1024, tell=tell
        )

    with pytest.raises(KeyboardInterrupt):
        make(killed)
    assert not (tmp_path / "canonical").exists()
    made = make(lambda _what, number, _total: done.append(number))
    assert done[:2] == [1, 2] and done[2] == 3, "finished parts are not made again"
    alone = tokenstore.read(tokens)
    for split in tokenstore.SPLITS:
        for one, other in zip(alone[split], made[split], strict=True):
            assert np.array_equal(one, other)
    assert [p.name for p in tmp_path.iterdir()] == ["canonical"]


def test_no_text_stands_twice_or_in_both_splits(tokens: Path) -> None:
    found = tokenstore.read(tokens)
    prompts: list[bytes] = []
    for part in found.values():
        for start, prompt in zip(part.starts(), part.prompts, strict=True):
            prompts.append(part.ids[start : start + prompt].tobytes())
    assert len(prompts) > 150 and len(set(prompts)) == len(prompts)


def test_sequences_are_the_chat_and_its_record(tokens: Path) -> None:
    part = tokenstore.read(tokens)["train"]
    tokenizer = nano_tokenizer()
    text = tokenizer.decode(part.ids[: part.lengths[0]])
    assert text.endswith('"commit":null}<|im_end|>') or '"commit":' in text
    assert tokenizer.decode(part.ids[: part.prompts[0]]).endswith("<|im_start|>assistant\n")
    speller = Speller(Coder(tokenizer))
    again = speller.spell([], 1024)
    assert len(again.tokens) == 0


def test_a_damaged_or_foreign_folder_is_refused(tokens: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="other settings"):
        tokenstore.make(tokens.parent, SETTINGS, nano_tokenizer(), "canonical", longest=512)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in tokens.iterdir():
        data = path.read_bytes()
        (copy / path.name).write_bytes(data if path.suffix == ".json" else data[:-1])
    with pytest.raises(CorpusError, match="damaged"):
        tokenstore.read(copy)


@pytest.mark.parametrize("least", [2, 10_000])
def test_flat_losses_are_those_of_sequences_alone(
    tokens: Path, backbone: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(flats_module, "SHARED", (least, 1))
    part = tokenstore.read(tokens)["train"]
    student = Student(recipe(backbone), 0)
    flats = Flats(part, 0, 5, mean=True, device="cpu")
    rows = flats.chosen(3)
    assert (flats.batch(3).shared is not None) == (least == 2)
    stored = Stored(part, 0, 1)
    flat = flats.batch(3)
    with torch.no_grad():
        together = nll_of(student.model, flat)
        alone = [run(student.model, [stored.pair(int(i)).source], "cpu", share=False) for i in rows]
    torch.testing.assert_close(together, torch.cat([p.nll for p in alone]), atol=1e-5, rtol=1e-4)
    means = torch.stack([p.nll.mean() for p in alone]).mean()
    weighted = (together * flat.weights).sum() / flat.records
    torch.testing.assert_close(weighted, means, atol=1e-5, rtol=1e-4)


def test_every_pass_meets_every_record_once(tokens: Path) -> None:
    part = tokenstore.read(tokens)["train"]
    flats = Flats(part, 7, 5, mean=True, device="cpu")
    met = np.concatenate([flats.chosen(u) for u in range(-(-len(part) // 5))])[: len(part)]
    assert sorted(met.tolist()) == list(range(len(part)))


def test_a_resumed_sprint_equals_an_uninterrupted_one(backbone: Path, tmp_path: Path) -> None:
    whole = Stages(recipe(backbone), tmp_path / "none", tmp_path / "a", 0).warm_start()
    stages = Stages(recipe(backbone), tmp_path / "none", tmp_path / "b", 0)
    stages.warm_start(until=3)
    law = stages.warm_start()
    from waggle.scd.train.checkpoint import read_tensors

    names = sorted(path.name for path in whole.glob("*.safetensors"))
    assert names and law == tmp_path / "b" / "seed-0" / "warm-start" / "law"
    for name in names:
        one, other = read_tensors(whole / name), read_tensors(law / name)
        assert all(torch.equal(one[k], other[k]) for k in one)
        assert all(t.dtype == torch.bfloat16 for t in one.values())


def test_a_time_budget_ends_a_stage_with_a_law(backbone: Path, tmp_path: Path) -> None:
    stages = Stages(
        recipe(backbone, updates=100_000, seconds=0.5), tmp_path / "none", tmp_path / "a", 0
    )
    law = stages.warm_start()
    assert (law / "config.json").exists()


def test_the_rate_follows_the_share_of_a_time_budget() -> None:
    stage = StageOne(updates=1_000_000, rate_warm_up=0, seconds=10.0)
    assert rate_factor(stage, 5, 0.0) == pytest.approx(1.0)
    assert rate_factor(stage, 5, 0.5) == pytest.approx(0.5)
    assert rate_factor(stage, 5, 1.2) == pytest.approx(0.0)
    few = stage.model_copy(update={"updates": 105, "rate_warm_up": 5})
    assert rate_factor(few, 55, 0.2) == pytest.approx(0.5)  # updates are spent sooner
    assert rate_factor(few, 105, 0.2) == pytest.approx(0.0)
