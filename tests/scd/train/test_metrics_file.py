"""Metrics go to `metrics.jsonl`, each update once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from waggle.scd.train.trainer import MetricsFile

TOLD = [(0, {"nll": 2.0}), (3, {"nll": 1.0, "validation.nll": 1.5})]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_of_updates_that_are_done_again_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "stage" / "metrics.jsonl"
    log = MetricsFile(path, 0)
    for update, values in TOLD:
        log.log(update, values)
    assert lines(path) == [{"update": update, **values} for update, values in TOLD]
    log.close()
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"update": 4, "nl')  # a kill while it was written
    MetricsFile(path, 2).close()
    assert [line["update"] for line in lines(path)] == [0]
