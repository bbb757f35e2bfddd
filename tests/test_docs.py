"""What the README says is true: its code runs, its commands exist, its picture is a run's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from waggle.cli.main import COMMANDS, GROUPS, main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.M | re.S)


def test_the_code_blocks_run_in_order(clean_registry: None) -> None:
    code = "\n".join(blocks("python"))
    assert "@law" in code and "@metric" in code and "@substrate" in code
    scope = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), scope)  # the blocks end in the conformance kit
    assert callable(scope["check_substrate"])


def test_every_command_is_in_the_table_and_none_else() -> None:
    heads = "|".join(GROUPS)
    plain = README.replace("\\|", "|")
    named = set(re.findall(rf"`waggle ((?:(?:{heads}) )?[a-z|]+)", plain))
    spelled = {name for text in named for name in _alternatives(text)}
    assert {name.split()[0] for name in COMMANDS} <= {name.split()[0] for name in spelled}
    assert spelled <= {*COMMANDS, *GROUPS}


def _alternatives(text: str) -> list[str]:
    """Spell `check substrate|law` out."""
    head, _, last = text.rpartition(" ")
    return [f"{head} {name}".strip() for name in last.split("|")]


def test_the_picture_is_what_its_command_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = next(text for block in blocks("sh") for text in block.splitlines() if "--watch" in text)
    words = shlex.split(line.partition("waggle ")[2])
    words[words.index("--out") + 1] = str(tmp_path)
    assert main(words) == 0
    shown = capsys.readouterr().err
    (picture,) = (block for block in blocks("text") if "beacon" in block and "score" in block)
    for row in picture.splitlines():
        assert row in shown, row


def test_the_layout_names_every_package_and_none_else() -> None:
    (tree,) = (block for block in blocks("text") if block.startswith("src/waggle/"))
    named = set(re.findall(r"^  ([a-z]+)/ ", tree, flags=re.M))
    package = ROOT / "src" / "waggle"
    assert named == {p.parent.name for p in package.glob("*/__init__.py")}
