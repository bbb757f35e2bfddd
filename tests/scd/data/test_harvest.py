"""The token corpus: the same arrays whatever the workers and kills, no prompt twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from waggle.core import orbit
from waggle.core.canon import to_decision
from waggle.core.schema import Contract, Decision, Port, Private, Proposal, View
from waggle.corpus.settings import HarvestSettings
from waggle.corpus.store import CorpusError
from waggle.models.nano import nano_tokenizer
from waggle.scd.data import harvest
from waggle.scd.data.arrays import Rows
from waggle.scd.data.tokenize import ChatEncoder

SETTINGS = HarvestSettings(
    tasks=("beacon",), native=120, synthetic=200, held_out=8, n=(6,), rounds=6, made_up=50
)


def same(one: Rows, other: Rows) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("ids", "lengths", "prompts")
    )


def read(folder: Path) -> dict[str, Rows]:
    return harvest.read(folder, harvest.identity(SETTINGS, nano_tokenizer(), "canonical", 1024))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens") / "one"
    harvest.token_corpus(folder, SETTINGS, nano_tokenizer(), "canonical", longest=1024)
    return folder / "canonical"


@pytest.mark.usefixtures("workers")
def test_the_harvest_is_the_same_whatever_the_workers(tokens: Path, tmp_path: Path) -> None:
    shared = harvest.token_corpus(
        tmp_path / "two", SETTINGS, nano_tokenizer(), "canonical", longest=1024, workers=2
    )
    alone = read(tokens)
    for split in harvest.SPLITS:
        assert same(alone[split], shared[split])


def test_both_orders_show_the_views_of_one_harvest(tokens: Path, tmp_path: Path) -> None:
    made = harvest.token_corpus(tmp_path, SETTINGS, nano_tokenizer(), "shuffled", longest=1024)
    for split, rows in read(tokens).items():
        assert len(made[split]) >= len(rows) > 0
        assert not same(made[split], rows)


def test_without_orbit_images_views_are_shown_as_they_were_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = SETTINGS.model_copy(update={"synthetic": 0, "as_seen": True})
    monkeypatch.setattr(orbit, "sample", lambda *_: pytest.fail("an image was made"))
    made = harvest.token_corpus(tmp_path, played, nano_tokenizer(), "shuffled", longest=1024)
    assert len(made["train"]) > 0


def test_an_orbit_is_one_view() -> None:
    view = View(
        Contract("t", "pick one", ("PICK:@channel", "WAIT")),
        Private({}, channels=(Port("h0", 1), Port("h1", 2))), Proposal("WAIT"), (), None, 3,
    )  # fmt: skip
    images = [orbit.sample(view, entropy).view(view) for entropy in range(3)]
    pairs = [(each, Decision("WAIT", None, (), None)) for each in images]
    encoder = ChatEncoder(nano_tokenizer())
    assert len(harvest.tokenised(encoder, pairs, 1024).rows) == 3
    assert len(harvest.tokenised(encoder, pairs, 1024, [b"one", b"one", b"other"]).rows) == 2


def test_a_killed_harvest_goes_on_with_what_is_missing(
    tokens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harvest, "PART_VIEWS", 60)
    done: list[int] = []

    def killed(_what: str, number: int, _total: int) -> None:
        done.append(number)
        if len(done) == 2:
            raise KeyboardInterrupt

    def make(progress: harvest.Progress) -> dict[str, Rows]:
        return harvest.token_corpus(
            tmp_path, SETTINGS, nano_tokenizer(), "canonical", longest=1024, progress=progress
        )

    with pytest.raises(KeyboardInterrupt):
        make(killed)
    assert not (tmp_path / "canonical").exists()
    made = make(lambda _what, number, _total: done.append(number))
    assert done[:2] == [1, 2] and done[2] == 3, "finished parts are not made again"
    alone = read(tokens)
    for split in harvest.SPLITS:
        assert same(alone[split], made[split])
    assert [p.name for p in tmp_path.iterdir()] == ["canonical"]


def test_no_text_stands_twice_or_in_both_splits(tokens: Path) -> None:
    found = read(tokens)
    prompts: list[bytes] = []
    for part in found.values():
        for start, prompt in zip(part.starts, part.prompts, strict=True):
            prompts.append(part.ids[start : start + prompt].tobytes())
    assert len(prompts) > 150 and len(set(prompts)) == len(prompts)


def test_sequences_are_the_chat_and_its_record(tokens: Path) -> None:
    part = read(tokens)["train"]
    tokenizer = nano_tokenizer()
    for start, prompt, length in zip(part.starts, part.prompts, part.lengths, strict=True):
        shown = tokenizer.decode(part.ids[start : start + prompt])
        answer = tokenizer.decode(part.ids[start + prompt : start + length])
        assert shown.endswith("<|im_start|>assistant\n") and answer.endswith("<|im_end|>")
        assert to_decision(answer.removesuffix("<|im_end|>").encode()).task_action in shown
    assert len(harvest.tokenised(ChatEncoder(tokenizer), [], 1024).rows) == 0


def test_a_damaged_or_foreign_folder_is_refused(tokens: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="other settings"):
        harvest.token_corpus(tokens.parent, SETTINGS, nano_tokenizer(), "canonical", longest=512)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in tokens.iterdir():
        data = path.read_bytes()
        (copy / path.name).write_bytes(data if path.suffix == ".json" else data[:-1])
    with pytest.raises(CorpusError, match="damaged"):
        read(copy)
