"""A trained law drafted by its teacher: the same records in fewer passes, free and constrained."""

from pathlib import Path
from typing import Any

import pytest

from waggle import plugins, shipped
from waggle.core.errors import ConfigError
from waggle.core.protocols import Case, Request
from waggle.corpus.harvest import Listener
from waggle.laws import foretell
from waggle.laws.foretell import Teacher
from waggle.laws.shipped import of_folder
from waggle.runtime.sync import Engine

pytestmark = pytest.mark.skipif(not shipped.present("nano"), reason="needs the weights of nano")


@pytest.fixture(scope="module")
def requests() -> list[Request]:
    found: list[Request] = []
    for substrate, task in (
        ("silo", "II-16"),
        ("agentsnet", "coloring"),
        ("swarmbench", "pursuit"),
    ):
        case = Case(substrate, task, 8, 10_050, 4)
        law = Listener(plugins.get_law("expert"))
        Engine(plugins.get_substrate(substrate).open(case), law, case, order="canonical").play()
        found += [Request(view) for view, _ in law.pairs[5::12]]
    return found


def decide(mode: Any, requests: list[Request]) -> tuple[list[Any], int]:
    law = of_folder(Path(shipped.folder("nano")), mode, device="cpu", dtype="float32", max_rows=8)
    done = law.decide(requests)
    return [d.output for d in done], sum(d.usage.model_steps for d in done)


@pytest.mark.parametrize("mode", ["free", "constrained"])
def test_a_teacher_changes_no_record(
    requests: list[Request], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafted, fewer = decide(mode, requests)
    monkeypatch.setenv(foretell.VARIABLE, "skeleton")
    usual, steps = decide(mode, requests)
    assert drafted == usual
    assert fewer < 0.7 * steps
    assert fewer >= len(requests)


def test_who_teaches_drafts_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    dialogue: Any = object()
    monkeypatch.delenv(foretell.VARIABLE, raising=False)
    assert foretell.teacher("expert", dialogue) is not None
    assert foretell.teacher("none", dialogue) is None
    monkeypatch.setenv(foretell.VARIABLE, "skeleton")
    assert foretell.teacher("expert", dialogue) is None
    monkeypatch.setenv(foretell.VARIABLE, "oracle")
    with pytest.raises(ConfigError, match="teacher or skeleton"):
        foretell.teacher("expert", dialogue)


def test_a_teacher_that_fails_foretells_nothing(requests: list[Request]) -> None:
    class Broken:
        name = "broken"

        def decide(self, requests: Any) -> Any:
            raise ZeroDivisionError

    dialogue: Any = object()
    said = Teacher(Broken(), dialogue).of(requests[0].view)
    assert said.tokens() == () and not said.fits()
