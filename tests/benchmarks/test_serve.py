"""The load of a server is measured on a server of its own."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="needs the serve extra")

from benchmarks.serve import measure


def test_clients_are_answered_beside_dripping_ones() -> None:
    found = measure("heuristic", 3, 4, 0.5)
    assert found.answers > 0 and found.errors == 0 and found.p99_ms >= found.p50_ms > 0
    assert found.peak_mb > 1 and found.cpu_ms > 0
