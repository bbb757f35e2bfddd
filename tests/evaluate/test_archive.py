"""Archives: the same rows in fewer bytes, read with distrust, replaced method by method."""

from __future__ import annotations

import lzma
from pathlib import Path

import msgspec
import pytest

from tests.evaluate.plans import plan
from waggle.core.errors import ConfigError, RecordError
from waggle.evaluate import rows, sessions
from waggle.evaluate.archive import archive
from waggle.evaluate.executors import Inline
from waggle.evaluate.merge import merge
from waggle.evaluate.rows import FILE, PACKED, SUFFIX, failed_row, read_rows, succeeded
from waggle.evaluate.runner import run_plan


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory of four cells."""
    folder = tmp_path / "run"
    run_plan(plan(), folder, Inline())
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / PACKED).iterdir()}


def test_an_archive_says_what_the_run_says(run: Path, tmp_path: Path) -> None:
    done = archive(plan(), run, tmp_path / "small")
    method = plan()[0].method
    assert done == ({method: 4}, 0, 0)
    assert read_rows(tmp_path / "small") == read_rows(run)
    assert sessions.read(tmp_path / "small") == sessions.read(run)
    size = (tmp_path / "small" / PACKED / f"{method}{SUFFIX}").stat().st_size
    assert size < (run / FILE).stat().st_size


def test_the_same_rows_give_the_same_bytes(run: Path, tmp_path: Path) -> None:
    """Also from a file in which they lie in another order, behind rows that no longer count."""
    archive(plan(), run, tmp_path / "one")
    lines = (run / FILE).read_bytes().splitlines(keepends=True)
    (run / FILE).write_bytes(b"".join([lines[0], *reversed(lines)]))
    archive(plan(), run, tmp_path / "two")
    archive(plan(), run, tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert len(sessions.read(tmp_path / "two")) == 1


def test_failed_rows_come_along_and_unplanned_ones_stay(run: Path, tmp_path: Path) -> None:
    last = plan()[-1]
    with (run / FILE).open("ab") as file:
        file.write(msgspec.json.encode(failed_row(last, "no luck")) + b"\n")
    done = archive([*plan()[1:]], run, tmp_path / "small")
    assert (sum(done.rows.values()), done.left) == (3, 1)
    assert [row.error for row in read_rows(tmp_path / "small")].count("no luck") == 1
    assert len(succeeded(tmp_path / "small")) == 2


def test_other_methods_stay(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "small" / PACKED / f"another{SUFFIX}"
    kept.parent.mkdir(parents=True)
    other = msgspec.structs.replace(read_rows(run)[0], method="another")
    kept.write_bytes(lzma.compress(msgspec.json.encode(other) + b"\n"))
    archive(plan(), run, tmp_path / "small")
    assert {row.method for row in read_rows(tmp_path / "small")} == {"another", plan()[0].method}


def test_what_training_and_diagnosis_left_comes_along(run: Path, tmp_path: Path) -> None:
    for name in ("arms/scd-0.json", "diagnoses/nano.json", "tune.json"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(f'{{"of": "{name}"}}')
    assert archive(plan(), run, tmp_path / "small").copied == 3
    assert (tmp_path / "small" / "arms" / "scd-0.json").read_text() == '{"of": "arms/scd-0.json"}'


def test_a_run_takes_the_rows_of_an_archive(run: Path, tmp_path: Path) -> None:
    archive(plan(), run, tmp_path / "small")
    assert merge(plan(), tmp_path / "here", tmp_path / "small").taken == 4
    assert run_plan(plan(), tmp_path / "here", Inline()) == (0, 4, 0)


def test_a_run_is_no_place_for_an_archive(run: Path, tmp_path: Path) -> None:
    run_plan(plan(seeds=1), tmp_path / "other", Inline())
    with pytest.raises(ConfigError, match="is a run directory; name another folder"):
        archive(plan(), run, tmp_path / "other")


@pytest.mark.parametrize("harm", [lambda data: data[:-20], lambda data: b"no xz" + data])
def test_a_damaged_archive_is_one_line(run: Path, tmp_path: Path, harm: object) -> None:
    archive(plan(), run, tmp_path / "small")
    (path,) = (tmp_path / "small" / PACKED).iterdir()
    assert callable(harm)
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(RecordError, match=r"is damaged .* archive the run again") as caught:
        read_rows(tmp_path / "small")
    assert "\n" not in str(caught.value)


def test_an_archive_that_unfolds_without_end_is_left(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive(plan(), run, tmp_path / "small")
    (path,) = (tmp_path / "small" / PACKED).iterdir()
    path.write_bytes(lzma.compress((b" " * 1023 + b"\n") * (2 << 10)))
    monkeypatch.setattr(rows, "MAX_PACKED", 1 << 20)
    with pytest.raises(RecordError, match="unfolds to over 1 MiB"):
        read_rows(tmp_path / "small")
