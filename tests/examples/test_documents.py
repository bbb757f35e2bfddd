"""The documents example: the swarm settles, a file changes on disk, and it settles again."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from waggle import Case, play, plugins
from waggle.cli.main import main
from waggle.core.errors import ConfigError
from waggle.core.record import EpisodeRecord, RoundRecord
from waggle.core.worker import Work
from waggle.runtime.recorder import Memory
from waggle.runtime.replay import replay
from waggle.runtime.staff import Staff
from waggle.testing import check_substrate
from waggle.workers.desk import WorkerDesk
from waggle.workers.hire import hire

EXAMPLE = Path(__file__).parents[2] / "examples" / "documents"
JARS = 198
CHANGE = 20


@pytest.fixture(autouse=True)
def documents(clean_registry: None) -> None:
    plugins.load_file(EXAMPLE / "documents.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE / "folders", tmp_path / "folders"))


def run(
    folder: Path, staff: Staff | None = None, law: str = "expert", change: str = ""
) -> EpisodeRecord:
    memory = Memory()

    def watch(entry: RoundRecord, world: Any) -> None:
        if change and entry.round == CHANGE:
            (folder / "larch" / "order.txt").write_text(change, encoding="utf-8")

    case = Case("documents", "documents", 16, 10_000, options={"folder": str(folder)})
    world = plugins.get_substrate("documents").open(case)
    play(world, plugins.get_law(law), case, staff=staff, watch=watch, sinks=[memory])
    return memory.record()


def held(record: EpisodeRecord, round: int) -> set[str | None]:
    return {update.claim for update in record.rounds[round].updates}


@pytest.mark.parametrize(
    ("law", "hired"), [("expert", None), ("expert", "full"), ("heuristic", "reuse")]
)
def test_a_changed_file_reopens_the_answer(folder: Path, law: str, hired: str | None) -> None:
    staff = hire("native", schedule=hired) if hired else None
    record = run(folder, staff, law, "We order 40 jars.")
    assert held(record, CHANGE) == {f"{JARS} jars"} and record.rounds[CHANGE].score["score"] == 1
    assert record.rounds[CHANGE + 1].score["score"] == 0
    assert held(record, -1) == {f"{JARS + 15} jars"} and record.footer.scores["score"] == 1
    assert record.footer.counters["reopened"] == 16
    if hired == "reuse":
        assert record.footer.counters["worker.calls"] == 17, (
            "all letters once, the changed one again"
        )


def test_the_answer_needs_every_folder(folder: Path) -> None:
    def illiterate(work: Work) -> int:
        letters = work.state["letters"]
        assert isinstance(letters, list) and work.native is not None
        if any("wedding" in str(letter) for letter in letters):
            raise ValueError("cannot read this one")
        number = work.native()
        assert isinstance(number, int)
        return number

    record = run(folder, Staff(WorkerDesk(illiterate, {"name": "illiterate"})))
    assert held(record, -1) == {None}, "one order is missing, so nobody commits"
    assert record.footer.counters["worker.failures"] == record.footer.rounds


def test_a_record_with_workers_replays_although_the_file_has_changed(folder: Path) -> None:
    record = run(folder, hire("native", schedule="reuse"), change="We order 40 jars.")
    world = plugins.get_substrate("documents").open(record.header.case)
    assert [r.claim for r in replay(record, world).record.rounds[-1].updates] == [
        u.claim for u in record.rounds[-1].updates
    ]


def test_it_is_a_substrate_like_any_other() -> None:
    check_substrate("documents", n=5).require()


def test_the_script_tells_the_story(capsys: pytest.CaptureFixture[str]) -> None:
    scope = runpy.run_path(str(EXAMPLE / "play.py"))
    assert scope["main"]() == 1.0
    told = capsys.readouterr().out
    assert "16 hold '198 jars'" in told and "16 hold '213 jars'" in told
    assert "asked 17 times" in told


def test_the_command_plays_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--plugin", str(EXAMPLE / "documents.py"), "documents", "--law", "expert"]
    worker = ["--worker", "native", "--worker.schedule", "reuse", "--rounds", "20"]
    assert main([*words, *worker, "--out", str(tmp_path), "--json"]) == 0
    assert '"worker.calls": 16' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (Case("documents", "documents", 17, 0), "has 16 folders"),
        (Case("documents", "documents", 4, 0, shock=True), "edit one while it runs"),
        (Case("documents", "documents", 4, 0, options={"folder": "/nowhere"}), "has 0 folders"),
    ],
)
def test_a_wrong_case_is_one_line(case: Case, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        plugins.get_substrate("documents").open(case)
