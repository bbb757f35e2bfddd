"""The cost of private workers is measured on every task of the paper's experiment."""

from __future__ import annotations

import pytest

from benchmarks import workers


def test_every_task_has_a_ratio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["workers", "--n", "4", "--repeats", "1"])
    workers.main()
    lines = capsys.readouterr().out.splitlines()
    found = {line.split()[0]: float(line.split()[-1]) for line in lines if "/" in line}
    assert found.keys() == set(workers.TASKS) and all(ratio > 0.2 for ratio in found.values())
