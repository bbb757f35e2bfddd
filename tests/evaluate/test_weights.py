"""Rows know the weights that played them: old rows of a law that was trained again do not mix."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from tests.evaluate.test_runner import plan
from waggle.cli.main import main
from waggle.core.errors import ConfigError, RecordError
from waggle.core.protocols import Decode, Request
from waggle.evaluate import lanes
from waggle.evaluate.episodes import law_of
from waggle.evaluate.executors import Inline
from waggle.evaluate.merge import merge
from waggle.evaluate.plan import Cell
from waggle.evaluate.rows import FILE, Row, read_rows
from waggle.evaluate.runner import rows_from_records, run_plan
from waggle.laws.digest import digest_of
from waggle.laws.heuristic import Heuristic
from waggle.plugins import law

WEIGHTS = Path("weights")
"""What a trained law is made of, in the folder of the test."""


@law("test-trained")
class Trained:
    """The heuristic, as a law whose weights lie in a file."""

    name = "test-trained"

    def __init__(self, batched: bool = False) -> None:
        self.batched = batched
        self.digest = WEIGHTS.read_text() if WEIGHTS.exists() else ""

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        return Heuristic().decide(requests)


Train = Callable[[str], None]


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Train]:
    """Train the law: the next call finds other weights."""
    monkeypatch.chdir(tmp_path)

    def again(digest: str) -> None:
        WEIGHTS.write_text(digest)
        law_of.cache_clear()

    again("aaaa")
    yield again
    law_of.cache_clear()


def cells(seeds: int = 4, batched: bool = False, method: str = "m") -> list[Cell]:
    return [
        msgspec.structs.replace(cell, method=method, law_options={"batched": batched})
        for cell in plan("test-trained", seeds)
    ]


def of(folder: Path) -> list[tuple[int, str]]:
    return sorted((row.seed - 10_000, row.digest) for row in read_rows(folder))


def doctor(folder: Path, *digests: str) -> None:
    """Say of the rows of a folder that other weights played them; nothing where empty."""
    rows = read_rows(folder)
    told = [
        msgspec.structs.replace(row, weights=digest or msgspec.UNSET)
        for row, digest in zip(rows, digests, strict=True)
    ]
    (folder / FILE).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in told))


@pytest.mark.parametrize(("batched", "processes"), [(False, 1), (True, 1), (True, 2)])
def test_rows_name_the_weights_however_they_are_played(
    train: Train, monkeypatch: pytest.MonkeyPatch, batched: bool, processes: int
) -> None:
    monkeypatch.setattr(lanes, "START", "fork")
    monkeypatch.setattr(lanes, "POLL_SECONDS", 0.05)
    run_plan(cells(batched=batched), Path("run"), Inline(), processes=processes)
    assert of(Path("run")) == [(seed, "aaaa") for seed in range(4)]


@pytest.mark.usefixtures("train")
def test_rows_of_rules_cells_and_records_stay_as_they_are() -> None:
    run_plan(plan(seeds=1), Path("rules"), Inline())
    line = (Path("rules") / FILE).read_bytes()
    assert b"weights" not in line and line.endswith(b',"error":""}\n')
    run_plan(cells(1), Path("run"), Inline(), keep=True)
    (row,) = read_rows(Path("run"))
    (record,) = (Path("run") / "records").iterdir()
    assert row.cell == cells(1)[0].id and row.digest == "aaaa"
    assert b"aaaa" not in gzip.decompress(record.read_bytes())


@pytest.mark.usefixtures("train")
def test_rows_measured_from_records_keep_their_weights() -> None:
    run_plan(cells(2), Path("run"), Inline(), keep=True)
    assert rows_from_records(cells(2), Path("run")) == read_rows(Path("run"))
    (Path("run") / FILE).unlink()
    assert {row.digest for row in rows_from_records(cells(2), Path("run"))} == {""}


@pytest.mark.usefixtures("train")
@pytest.mark.parametrize("text", ["", "<b>", "A", "0" * 65])
def test_a_digest_that_is_none_is_no_row(text: str) -> None:
    run_plan(cells(1), Path("run"), Inline())
    path = Path("run") / FILE
    path.write_bytes(path.read_bytes().replace(b'"aaaa"', f'"{text}"'.encode()))
    with pytest.raises(RecordError, match=r"line 1 is no row"):
        read_rows(Path("run"))


class Speechless(Heuristic):
    """A law that fails when it is asked for its weights."""

    @property
    def digest(self) -> str:
        raise ZeroDivisionError("a bug")


def test_what_a_law_says_is_brought_into_form() -> None:
    made = Trained()
    for said, kept in (("0af", 3), ("version 2 of it", 12), ("0" * 65, 12), ("\ud800", 12), (7, 0)):
        made.digest = said  # type: ignore[assignment]
        assert len(digest_of(made)) == kept
    assert digest_of(Heuristic()) == digest_of(Speechless()) == ""


def test_a_law_that_was_trained_again_is_not_continued(train: Train) -> None:
    run_plan(cells(2), Path("run"), Inline())
    assert run_plan(cells(3), Path("run"), Inline()) == (1, 2, 0)
    train("bbbb")
    before = (Path("run") / FILE).read_bytes()
    with pytest.raises(ConfigError) as caught:
        run_plan(cells(), Path("run"), Inline())
    assert str(caught.value) == (
        "method 'm': 3 of 3 finished rows were played by other weights (aaaa) than the law has now "
        "(bbbb); --again --methods m plays them again; or leave it out with --methods"
    )
    assert (Path("run") / FILE).read_bytes() == before
    train("aaaa")
    assert run_plan(cells(), Path("run"), Inline()) == (1, 3, 0)


def test_other_methods_go_on_and_finished_ones_are_told_too(train: Train) -> None:
    both = [*cells(2), *cells(2, method="n"), *plan(seeds=3)]
    mixed = [msgspec.structs.replace(c, method="rule") if c.law == "heuristic" else c for c in both]
    run_plan(mixed[:4], Path("run"), Inline())
    train("bbbb")
    told: list[tuple[list[str], str]] = []
    done = run_plan(
        mixed, Path("run"), Inline(),
        left_out=lambda methods, reason: told.append((list(methods), reason)),
    )  # fmt: skip
    assert done == (3, 4, 0)
    ((methods, reason),) = told
    assert methods == ["m", "n"] and reason.startswith("4 of 4 finished rows were played by other")
    assert reason.endswith("; --again --methods m,n plays them again")  # and no rule anew


def test_again_plays_with_the_new_weights_and_says_what_stays(train: Train) -> None:
    run_plan(cells(), Path("run"), Inline())
    train("bbbb")
    told: list[str] = []
    part = {"whole": cells(), "notice": told.append}
    run_plan(cells(1), Path("run"), Inline(), again=True, **part)  # type: ignore[arg-type]
    assert of(Path("run")) == [(0, "bbbb"), (1, "aaaa"), (2, "aaaa"), (3, "aaaa")]
    (line,) = told
    assert line.startswith("m: 3 rows of other weights stay beside those of bbbb")
    # What was left of the older law keeps the part that has none of it from going on.
    with pytest.raises(ConfigError, match="3 of 4 finished rows"):
        run_plan(cells(1), Path("run"), Inline(), whole=cells())
    told.clear()
    run_plan(cells(), Path("run"), Inline(), again=True, **part)  # type: ignore[arg-type]
    assert {digest for _, digest in of(Path("run"))} == {"bbbb"} and told == []
    assert run_plan(cells(), Path("run"), Inline()) == (0, 4, 0)


@pytest.mark.usefixtures("train")
def test_rows_that_do_not_say_count_and_are_told_where_others_come() -> None:
    run_plan(cells(2), Path("run"), Inline())
    doctor(Path("run"), "", "")
    told: list[str] = []
    assert run_plan(cells(2), Path("run"), Inline(), notice=told.append) == (0, 2, 0)
    assert told == []
    assert run_plan(cells(3), Path("run"), Inline(), notice=told.append) == (1, 2, 0)
    (line,) = told
    assert (
        line.startswith("m: 2 rows stay that do not say which weights")
        and "--again --methods m" in line
    )
    assert of(Path("run")) == [(0, ""), (1, ""), (2, "aaaa")]


def test_a_law_that_cannot_be_made_or_told_makes_nothing_stale(train: Train) -> None:
    run_plan(cells(2), Path("run"), Inline())
    train("")
    assert run_plan(cells(2), Path("run"), Inline()) == (0, 2, 0)
    gone = [msgspec.structs.replace(cell, law="no-such-law") for cell in cells(2)]
    rows = [
        msgspec.structs.replace(row, cell=cell.id)
        for row, cell in zip(read_rows(Path("run")), gone, strict=True)
    ]
    (Path("run") / FILE).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    assert run_plan(gone, Path("run"), Inline()) == (0, 2, 0)


def test_a_merge_refuses_rows_of_other_weights(train: Train) -> None:
    run_plan(cells(3), Path("here"), Inline())
    train("bbbb")
    run_plan(cells(4)[2:], Path("there"), Inline())
    with pytest.raises(RecordError) as caught:
        merge(cells(), Path("here"), Path("there"))
    assert str(caught.value) == (
        "there: 2 rows of m, played by the weights bbbb, would lie beside rows of aaaa here; take "
        "them in place of those here with --again --merge, or leave the method out with --methods"
    )
    assert of(Path("here")) == [(0, "aaaa"), (1, "aaaa"), (2, "aaaa")]
    # The cell that both have came out alike, but it is the new law's now.
    assert merge(cells(), Path("here"), Path("there"), again=True) == (2, 0, 0, 2)
    assert of(Path("here")) == [(0, "aaaa"), (1, "aaaa"), (2, "bbbb"), (3, "bbbb")]
    assert merge(cells(), Path("here"), Path("there")) == (0, 2, 0, 0)


@pytest.mark.usefixtures("train")
def test_a_merge_refuses_cells_apart_and_a_folder_of_two_laws() -> None:
    run_plan(cells(1), Path("here"), Inline())
    run_plan(cells()[1:], Path("there"), Inline())
    assert merge(cells(2), Path("here"), Path("there")).taken == 1
    doctor(Path("there"), "aaaa", "cccc", "")
    with pytest.raises(RecordError, match="1 rows of m, played by the weights cccc, would lie"):
        merge(cells(), Path("here"), Path("there"))
    with pytest.raises(RecordError, match=r"2 rows of m, played by .* aaaa, cccc, are of several"):
        merge(cells(), Path("new"), Path("there"))
    assert not (Path("new") / FILE).exists()


@pytest.mark.usefixtures("train")
def test_a_merge_takes_rows_that_do_not_say() -> None:
    run_plan(cells(2), Path("here"), Inline())
    run_plan(cells(3), Path("there"), Inline())
    doctor(Path("there"), "", "", "")
    assert merge(cells(), Path("here"), Path("there")) == (1, 2, 0, 0)
    assert of(Path("here")) == [(0, "aaaa"), (1, "aaaa"), (2, "")]


RECIPE = """title = "Small"
[methods.m]
law = "test-trained"
[methods.rule]
law = "heuristic"
[[blocks]]
methods = ["m", "rule"]
tasks = ["beacon"]
n = [4]
seeds = [10000, 10001]
rounds = [3]
"""


def test_the_command_says_it_in_one_line_and_the_report_under_its_tables(
    train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("small.toml").write_text(RECIPE)
    call = ["eval", "small.toml", "--executor", "inline", "--out", "run"]
    assert main([*call, "--seeds", "1"]) == 0
    train("bbbb")
    capsys.readouterr()
    assert main(call) == 0
    said = " ".join(capsys.readouterr().err.split())
    stale = "1 of 1 finished rows were played by other weights (aaaa) than the law has now (bbbb)"
    assert f"left out: m ({stale}; --again --methods m plays them again)" in said
    assert main([*call, "--dry-run"]) == 0
    assert f"left out: m ({stale}" in " ".join(capsys.readouterr().err.split())
    assert main([*call, "--methods", "m"]) != 0
    assert stale in " ".join(capsys.readouterr().err.split())
    assert main(["report", "run"]) == 0 and "MIXED" not in Path("run/report.md").read_text()
    rows = {row.seed: row for row in read_rows(Path("run")) if row.method == "m"}
    assert list(rows) == [10_000]
    assert main([*call, "--again", "--methods", "m"]) == 0
    forge(Path("run"), "cccc")
    capsys.readouterr()
    assert main(["report", "run"]) == 0
    text = Path("run/report.md").read_text()
    assert text.count("m: episodes 1 by bbbb, 1 by cccc") == 2  # at the top, and under the table


def forge(folder: Path, digest: str) -> None:
    """Say of the last row of the trained law that other weights played it."""
    last: Row = [row for row in read_rows(folder) if row.method == "m"][-1]
    with (folder / FILE).open("ab") as file:
        file.write(msgspec.json.encode(msgspec.structs.replace(last, weights=digest)) + b"\n")
