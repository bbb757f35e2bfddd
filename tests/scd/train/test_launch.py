"""The launcher ends with the code of its processes and prints no traceback of its own."""

from __future__ import annotations

import pytest
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from waggle.scd.train.launch import main


@pytest.mark.parametrize(
    ("code", "ends", "said"), [(1, 1, ""), (2, 2, ""), (-9, 1, "waggle: process 3 was killed by")]
)
def test_a_process_that_failed_has_said_why(
    code: int, ends: int, said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def fail(args: object) -> None:
        raise ChildFailedError("waggle", {3: ProcessFailure(3, 99, code, "")})

    monkeypatch.setattr(run, "run", fail)
    assert main(["--nproc-per-node", "4", "-m", "waggle"]) == ends
    error = capsys.readouterr().err
    assert error.startswith(said) and error.count("\n") == bool(said)
