"""A law is measured on views of the substrates, each prompt once."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import views as bench_views
from benchmarks.host import bench_asks
from waggle import shipped
from waggle.cli.bench import engine as bench_engine
from waggle.laws.origin import Origin
from waggle.models import weights


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return weights.load_tokenizer(str(shipped.folder("nano")))


def test_views_are_distinct_and_of_the_length_asked_for(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_views, "TASKS", {"silo": ("II-16",), "swarmbench": ("pursuit",)})
    law = bench_views.Weights("nano", None, Origin("canonical", "expert"))
    asks = bench_views.gather(tokenizer, law, 48, 180)
    assert len({(ask.prefix, ask.tail) for ask in asks}) == 48
    assert all(abs(len(ask.tail) - 180) < 60 for ask in asks)
    for ask in asks[::6]:
        assert ask.draft is not None
        said = ask.draft()
        tokens = said.tokens()
        assert said.fits() and ask.grammar(None).accepts(tokenizer.decode(tokens))
    report = bench_asks("nano", tokenizer, asks, 12)
    steps = {cell.mode: cell.steps for cell in report.cells}
    assert steps["free"] < steps["free, no teacher"] < steps["free, rolled"]
    assert steps["constrained"] < steps["constrained, no teacher"]


def test_nobody_foretells_what_was_taught_nothing(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_views, "TASKS", {"silo": ("II-16",)})
    monkeypatch.setattr(bench_views, "SPARE", 1.0)
    monkeypatch.setattr(weights, "load", lambda *_: (None, tokenizer))
    for law in (bench_views.untaught("tiny-random"), bench_views.Weights("nano", None, Origin())):
        setup = bench_views.prepare(law, "cpu", "float32", (2, 1), 180, 20)
        assert setup.forced is not law.taught
        assert [ask.draft is None for ask in setup.work] == [not law.taught] * 2
        report = bench_asks("nano", tokenizer, [*setup.work, *setup.warm], 1)
        assert len(report.cells) == (5 if law.taught else 3)
        assert all(cell.steps > 1 for cell in report.cells[1:] if not law.taught)


def test_laws_are_found_by_name_and_by_folder(tmp_path: Path) -> None:
    named = bench_views.find(str(shipped.folder("smollm2")), None)
    assert named is not None and named.model == "smollm2-135m-instruct"
    assert named.adapter == str(shipped.folder("smollm2")) and named.said.teacher == "expert"
    whole = bench_views.find(str(shipped.folder("nano")), None)
    assert whole is not None and whole.adapter is None and whole.said.order == "canonical"
    assert bench_views.find("tiny-random", None) is None
    assert bench_views.find("smollm2-135m-shape", None) is None
    put_on = bench_views.find("tiny-random", str(tmp_path))
    assert put_on is not None and put_on.adapter == str(tmp_path)


def test_who_shares_a_machine_measures_in_turn(tmp_path: Path) -> None:
    """A turn begins when everybody else is ready, and nobody else's begins before it ends."""
    file, said = tmp_path / "turns", []
    inside = threading.Event()

    def other() -> None:
        with bench_engine._among(file) as turn:
            inside.set()
            time.sleep(0.3)
            said.append("other is ready")
            with turn():
                said.append("other measures")
                said.append("other has measured")

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with bench_engine._among(file) as turn, turn():
        said += ["measures", "has measured"]
    thread.join(10)
    assert said[0] == "other is ready"
    assert sorted((said[1:3], said[3:])) == [["measures", "has measured"], OTHER]


OTHER = ["other measures", "other has measured"]
