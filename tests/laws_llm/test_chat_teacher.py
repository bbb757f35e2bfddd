"""A chat endpoint as the teacher: sampled at 0.2, kept, resumed, and refused when it babbles.

What a real endpoint is asked for is shown end to end, with `waggle serve --law expert` in its
place: it teaches a law that is trained and exported, and it is the decision source of a recipe.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="needs the chat extra")

from tests.laws_llm.serving import serving
from waggle.cli.main import main
from waggle.core.schema import Decision
from waggle.corpus.curriculum import Curriculum
from waggle.corpus.settings import CorpusSettings
from waggle.corpus.store import Store
from waggle.evaluate.rows import read_rows
from waggle.laws.origin import origin


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = CorpusSettings(
        tasks=("beacon",), bundles=1, validation=1, test=1, native=3, n=(4,), rounds=3
    )
    folder = tmp_path_factory.mktemp("views")
    store = Store(folder)
    store.write("views", Curriculum(settings).examples(), settings.model_dump(mode="json"))
    return folder


@pytest.fixture
def corpus(views: Path, tmp_path: Path) -> Path:
    """A corpus of its own that nobody has labelled."""
    return shutil.copytree(views, tmp_path / "corpus")


def size(corpus: Path) -> int:
    store = Store(corpus)
    return sum(len(list(store.examples("views", split))) for split in store.splits("views"))


def labels(corpus: Path) -> dict[str, tuple[Decision | None, str | None]]:
    store = Store(corpus)
    return {e.key: (e.decision, e.teacher) for split in store.splits("decisions")
            for e in store.examples("decisions", split)}  # fmt: skip


def label(corpus: Path, url: str, *more: str) -> int:
    quick = ("--law.timeout", "5", "--law.retries", "0", "--law.concurrency", "1")
    return main(["corpus", "label", str(corpus), "--teacher", "chat", "--law.base-url", url,
                 "--law.patience", "9999", *quick, *more])  # fmt: skip


def test_the_teacher_is_sampled_at_a_fifth_and_asked_once_per_view(
    corpus: Path, unruly: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server = unruly("good")
    assert label(corpus, server.url) == 0
    assert {body["temperature"] for body in server.seen} == {0.2}
    assert len(server.seen) == size(corpus) == len(labels(corpus))
    assert {teacher for _, teacher in labels(corpus).values()} == {"chat"}
    assert "0 answers refused" in capsys.readouterr().out
    assert label(corpus, server.url, "--law.temperature", "0.7", "--fresh") == 0
    assert {body["temperature"] for body in server.seen[size(corpus) :]} == {0.7}


def test_an_interrupted_labelling_asks_only_for_what_is_missing(
    corpus: Path, unruly: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = 5
    dying = unruly(*["good"] * kept, "broken")
    assert label(corpus, dying.url) == 2
    said = capsys.readouterr().err
    *progress, error = said.splitlines()
    assert "gave no admissible record" in error and all("label" in line for line in progress)
    assert "decisions" not in Store(corpus).manifest().parts
    server = unruly("good")
    assert label(corpus, server.url) == 0
    assert len(server.seen) == size(corpus) - kept
    before = labels(corpus)
    dead = unruly("hangup")
    assert label(corpus, dead.url) == 0
    assert dead.seen == [] and labels(corpus) == before


def test_a_question_that_was_answered_is_never_paid_for_again(
    corpus: Path, unruly: Any, tmp_path: Path
) -> None:
    server = unruly("good")
    memory = ("--law.cache", str(tmp_path / "replies.sqlite"))
    assert label(corpus, server.url, *memory) == 0
    asked = len(server.seen)
    assert label(corpus, server.url, *memory, "--fresh") == 0
    assert len(server.seen) == asked


def test_prose_never_enters_the_corpus(
    corpus: Path, unruly: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    views = size(corpus)
    assert label(corpus, unruly(*["good", "prose"] * views).url) == 0
    held = labels(corpus)
    assert len(held) == -(-views // 2)
    assert all(decision is not None for decision, _ in held.values())
    assert f"{views - len(held)} answers refused" in capsys.readouterr().out


def test_a_teacher_of_prose_alone_is_one_line(
    corpus: Path, unruly: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert label(corpus, unruly("prose").url) == 2
    said = capsys.readouterr().err
    *progress, error = said.splitlines()
    assert "gave no admissible record" in error and all("label" in line for line in progress)
    assert "decisions" not in Store(corpus).manifest().parts


@pytest.fixture
def served() -> Iterator[str]:
    """`waggle serve --law expert` in a process of its own."""
    with serving("expert") as url:
        yield url


def test_a_live_endpoint_teaches_what_its_law_teaches(corpus: Path, served: str) -> None:
    assert label(corpus, served) == 0
    told = labels(corpus)
    assert main(["corpus", "label", str(corpus), "--teacher", "expert"]) == 0
    own = labels(corpus)
    assert {key: decision for key, (decision, _) in told.items()} == {
        key: decision for key, (decision, _) in own.items()
    }
    assert len({decision for decision, _ in own.values()}) > 3


TRAINING = """
name = "taught"
backbone = "tiny-random"
max_context = 4000
[corpus]
tasks = ["beacon"]
[transitions]
tasks = ["beacon"]
law = "expert"
train = 16
validation = 8
probe = 8
test = 8
n = [4]
rounds = 3
[stage_one]
updates = 2
batch = 2
[stage_two]
updates = 2
batch = 2
transition_batch = 2
[run]
device = "cpu"
dtype = "float32"
validation_records = 4
"""


def test_a_law_is_trained_on_what_an_endpoint_taught(
    corpus: Path, served: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert label(corpus, served) == 0
    recipe = tmp_path / "taught.toml"
    recipe.write_text(TRAINING)
    out = tmp_path / "run"
    assert main(["train", str(recipe), "--corpus", str(corpus), "--out", str(out)]) == 0
    law = out / "seed-0" / "scd" / "law"
    assert origin(str(law)).teacher == "chat"
    assert main(["run", "beacon", "-n", "4", "--rounds", "2", "--law", str(law),
                 "--out", str(tmp_path)]) == 0  # fmt: skip


RECIPE = """
title = "Sources"
[methods.expert]
law = "expert"
[[blocks]]
methods = ["expert"]
tasks = ["beacon", "silo/III-26"]
n = [8]
seeds = { start = 10000, count = 2 }
rounds = [6]
shock = true
"""


def test_an_endpoint_decides_for_a_whole_recipe_as_its_law_does(
    served: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, out = tmp_path / "sources.toml", tmp_path / "run"
    recipe.write_text(RECIPE)
    base = ["eval", str(recipe), "--out", str(out)]
    assert main(base) == 0
    asked = ["--law", "chat", "--law.base-url", served, "--law.model", "gpt-4o"]
    assert main([*base, *asked]) == 0
    scores = {(row.method, row.task, row.seed): row.scores for row in read_rows(out)}
    assert len(scores) == 8
    for (method, task, seed), found in scores.items():
        assert found == scores["expert", task, seed], method
    capsys.readouterr()
    assert main(["report", str(out)]) == 0
    assert "gpt-4o" in capsys.readouterr().out
