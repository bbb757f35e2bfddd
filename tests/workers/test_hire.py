"""Workers by name and by file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from waggle.core.errors import ConfigError
from waggle.core.schema import Json
from waggle.core.worker import Work
from waggle.workers.hire import find, hire, worker_options
from waggle.workers.rules import Slips, native

FILE = """
from __future__ import annotations

from dataclasses import dataclass

@dataclass
class Note:
    text: str

def answer(work):
    return Note("from the file").text

class Made:
    def __init__(self, word: str = "x", times: int = 2):
        self.text = word * times

    def __call__(self, work):
        return self.text

class Keeping(Made):
    def files(self):
        return "no options that name files"

thing = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def test_a_function_is_the_worker_and_a_class_makes_one(file: str) -> None:
    work = Work("t", "g", {})
    assert find(f"{file}:answer").target(work) == "from the file"
    staff = hire(f"{file}:Made", word="ab", schedule="reuse")
    assert staff.about == {"name": f"{file}:Made", "word": "ab", "schedule": "reuse"}
    assert list(worker_options(f"{file}:Made")) == ["word", "times"]
    assert staff._desk.answer([work])[0].value == "abab"
    assert hire(f"{file}:Keeping")._desk.answer([work])[0].value == "xx"


def test_a_changed_file_is_another_worker(file: str, tmp_path: Path) -> None:
    work, cache = Work("t", "g", {}), str(tmp_path / "answers.sqlite")

    def answer() -> object:
        return hire(f"{file}:answer", cache=cache)._desk.answer([work])[0].value

    assert answer() == answer() == "from the file"
    Path(file).write_text(FILE.replace("from the file", "edited text"), encoding="utf-8")
    assert answer() == "edited text"


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("nativ", {}, "did you mean 'native'"),
        ("native", {"rate": 1}, "no option 'rate'"),
        ("native", {"schedule": "often"}, "use full or reuse"),
        ("slips", {"rate": 2.0}, "from 0 to 1"),
        ("nowhere.py:answer", {}, "there is no nowhere.py"),
        ("~no-such-user/mine.py:answer", {}, "is no path"),
        ("chat", {"template": "~no-such-user/prompt.txt"}, "is no path"),
        ("chat", {"template": "\0"}, "is no path|cannot read"),
        ("chat", {"template": "\udcff"}, "cannot be written down"),
        ("no.such.module:answer", {}, "cannot be loaded"),
        ("{file}:answr", {}, "no callable 'answr'.*did you mean 'answer'"),
        ("{file}:thing", {}, "no callable 'thing'"),
    ],
)
def test_a_wrong_worker_is_one_line(
    name: str, options: dict[str, object], says: str, file: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        hire(name.format(file=file), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["sys.exit(2)", "1 / 0"])
def test_a_file_that_fails_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "bad.py").write_text(f"import sys\n\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot be loaded: .*\(bad\.py:3\)"):
        hire(f"{tmp_path}/bad.py:answer")


def test_slips_are_drawn_and_wrong() -> None:
    def work(draw: int, *actions: str) -> Work:
        right: Json = actions[0] if actions else {"a": [1, 2]}
        return Work("t", "g", {}, actions=actions, native=lambda: right, entropy=draw)

    assert Slips(1.0)(work(5, "UP", "DOWN")) == "DOWN"
    assert Slips(1.0)(work(5)) == {"a": [1, 3]}
    assert Slips(0.0)(work(5)) == native(work(5))
    slipped = sum(Slips(0.3)(work(k)) != {"a": [1, 2]} for k in range(10_000))
    assert slipped == 3_000


def test_a_changed_template_is_another_worker(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text("One {goal}", encoding="utf-8")
    desks: list[Any] = [hire("chat", template=str(path))._desk for _ in range(2)]
    path.write_text("Two {goal}", encoding="utf-8")
    desks.append(hire("chat", template=str(path))._desk)
    assert desks[0] is desks[1] is not desks[2]
    assert desks[0]._identity != desks[2]._identity, "kept answers are those of a template"
