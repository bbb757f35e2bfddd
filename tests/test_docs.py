"""What the texts say is true: code runs, commands and options exist, the picture is a run's."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from waggle.cli.main import COMMANDS, GROUPS, build, main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = sorted(
    path
    for pattern in ("*.md", "recipes/**/*.md", "recipes/**/*.toml", "recipes/*.sh")
    for path in ROOT.glob(pattern)
)


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


def options(command: str) -> set[str]:
    """Return the options of a command as they are typed."""
    app = build(command.split())
    for word in command.split():
        app = app[word]
    return {name for argument in app.assemble_argument_collection() for name in argument.names}


def typed(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a text with what follows it on its line or in its quotes."""
    names = "|".join(sorted(COMMANDS, key=len, reverse=True))
    joined = re.sub(r"\\\n#?", " ", text)
    yield from re.findall(rf"\bwaggle ({names})\b([^`\n]*)", joined)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_option_that_a_text_shows_exists(path: Path) -> None:
    for command, rest in typed(path.read_text(encoding="utf-8")):
        own = rest.partition("&&")[0]
        named = set(re.findall(r"(?<=\s)--[a-z-]+(?![a-z.-])", own))
        assert named <= options(command), f"waggle {command}{own}"


def test_the_search_for_options_finds_them() -> None:
    text = "`waggle report runs/x --freeze P` # waggle train r.toml --arm all \\\n#  --nowhere 3"
    found = [(command, rest.split()) for command, rest in typed(text)]
    assert [command for command, _ in found] == ["report", "train"]
    assert "--freeze" in options("report") and "--nowhere" in found[1][1]
    assert "--nowhere" not in options("train")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "recipes/tables/README.md"])
def test_every_file_that_a_text_names_is_there(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    quoted = re.findall(r"`([\w.-]+(?:/[\w.-]+)+|[A-Z]+\.\w+)`", text)
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    tops = {path.name for path in ROOT.iterdir()} - {"runs", "build"}
    named = {each for each in quoted if each.partition("/")[0] in tops} | set(linked)
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []
    assert named


def test_contributors_are_told_the_layers_that_the_linter_checks() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    asked = [set(re.findall(r"waggle\.(\w+)", layer)) for layer in contract["layers"]]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"checks\): (.*?)\.\n", text, flags=re.S)
    bare = re.sub(r"\(.*?\)", "", told, flags=re.S)
    assert [set(re.findall(r"\w+", layer)) for layer in bare.split(">")] == asked
