"""What the texts say is true: code blocks run or parse, names and paths exist, the site builds.

Python blocks of a page run in order in one scope. Shell lines are run where that takes a moment;
otherwise their arguments are bound to the command without calling it. TOML blocks are read by what
reads them; a block with a title becomes a file that later lines of its page may use.
"""

from __future__ import annotations

import glob
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

import waggle
from waggle import plugins
from waggle.cli.main import COMMANDS, GROUPS, build, main
from waggle.cli.options import COMMON, spell_out, take_common
from waggle.core import schema
from waggle.evaluate import plan
from waggle.learn.config import read_settings
from waggle.scd.config import read_recipe

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / "docs" / "tools"
CLI_PAGE = ROOT / "docs" / "cli.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "results" / "README.md",
    ROOT / "recipes" / "tables" / "README.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if ROOT / "docs/results" not in p.parents),
]
CHEAP = (
    "list", "doctor", "new ", "run beacon", "run rumour", "replay runs/beacon",
    "check substrate beacon", "check substrate rumour --plugin",
    "eval first.toml", "report runs/first", "archive runs/first", "report archive/first",
)  # fmt: skip
"""Shell lines that are really run."""
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    title: str
    text: str


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    fence = r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```'
    return [Block(*found) for found in re.findall(fence, text, flags=re.M | re.S)]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_registry: None) -> Path:
    """A working directory that looks like the repository but may be written to."""
    for shared in ("recipes", "src", "examples"):
        (tmp_path / shared).symlink_to(ROOT / shared)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", [p for p in PAGES if "```" in read(p) and p != CLI_PAGE], ids=name)
def test_a_page_does_what_it_shows(
    page: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scope: dict[str, object] = {"__name__": page.stem}
    shown = ""
    for block in blocks(read(page)):
        if block.language == "python" and block.title:
            (place / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.text, str(page), "exec"), scope)
            shown = capsys.readouterr().out
        elif block.language == "toml":
            _check_toml(block, place)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "sh":
            ran = [_shell(words) for words in lines(block.text)]
            captured = capsys.readouterr()
            shown = captured.out + captured.err if all(ran) else ""
        elif block.language == "text":
            assert not shown or [row for row in block.text.splitlines() if row not in shown] == []
            shown = ""
        else:
            pytest.fail(f"no rule for blocks of {block.language!r}")


def lines(text: str) -> Iterator[list[str]]:
    """Yield the words of every command, without comments and assignments."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        if words:
            yield words


def _shell(words: list[str]) -> bool:
    """Run a command if it is cheap, check it otherwise; return whether it ran."""
    missing = [w for w in words if re.match(r"(recipes|results|src)/", w)]
    assert [w for w in missing if not glob.glob(str(ROOT / w))] == []
    if words[0] in ("waggle", "accelerate"):
        return _command(words[words.index("waggle") + 1 :])
    if words[0] == "make":
        targets = re.findall(r"^([\w -]+):(?!=)", read(ROOT / "Makefile"), flags=re.M)
        assert set(words[1:]) <= {target for line in targets for target in line.split()}
    elif words[0] == "pip":
        extras = set(re.findall(r"[\w-]+", "".join(re.findall(r"\[(.*?)\]", " ".join(words)))))
        assert extras <= SETTINGS["project"]["optional-dependencies"].keys()
    else:
        assert words[0] == "." or os.access(ROOT / words[0], os.X_OK), words
    return False


def _command(words: list[str]) -> bool:
    tokens = [token for word in words for token in (sorted(glob.glob(word)) or [word])]
    law = tokens[tokens.index("--law") + 1] if "--law" in tokens else "heuristic"
    if " ".join(tokens).startswith(CHEAP) and law in ("heuristic", "hermit"):
        assert main(tokens) == 0, tokens
        return True
    tokens = spell_out(take_common(tokens))
    build(tokens).parse_args(tokens, exit_on_error=False, print_error=False)
    return False


def _check_toml(block: Block, place: Path) -> None:
    data = tomllib.loads(block.text)
    if block.title:
        path = place / block.title
        path.write_text(block.text, encoding="utf-8")
        if "credit" in data:
            assert read_settings(path)
        else:
            assert read_recipe(path) if "backbone" in data else plan.load(path)
    else:
        groups = {f"waggle.{kind}" for kind in ("substrates", "laws", "metrics")}
        assert data["project"]["entry-points"].keys() <= groups


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("waggle run beacon --seeed 3", True),
        ("waggle train recipes/nowhere.toml", True),
        ("make nothing", True),
        ("pip install 'waggle-swarm[nothing]'", True),
        ("WAGGLE_GPU_SHARE=0.4 waggle eval recipes/tables/primary.toml  # a comment", False),
    ],
)
def test_a_wrong_shell_line_is_found(text: str, wrong: bool, place: Path) -> None:
    (words,) = lines(text)
    if not wrong:
        assert not _shell(words)
        return
    with pytest.raises(Exception, match=r".+"):
        _shell(words)


def options(command: str) -> set[str]:
    """Return the options of a command as they are typed, with those that every command takes."""
    app = build(command.split())
    for word in command.split():
        app = app[word]
    own = {name for argument in app.assemble_argument_collection() for name in argument.names}
    return own | COMMON.keys()


def typed(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a text with what follows it on its line or in its quotes."""
    names = "|".join(sorted(COMMANDS, key=len, reverse=True))
    joined = re.sub(r"\\\n#?", " ", text)
    yield from re.findall(rf"\bwaggle ({names})\b([^`\n]*)", joined)


def test_every_command_and_option_that_a_text_names_exists() -> None:
    recipes = [p for end in ("**/*.toml", "*.sh") for p in sorted((ROOT / "recipes").glob(end))]
    heads = {word for known in COMMANDS for word in known.split()[:1]} | GROUPS.keys()
    wrong, known = [], {command: options(command) for command in COMMANDS}
    for path in [*PAGES, *recipes]:
        text = read(path)
        wrong += [
            f"{name(path)}: {w}" for w in re.findall(r"`waggle ([a-z]+)", text) if w not in heads
        ]
        for command, rest in typed(text):
            own = rest.partition("&&")[0]
            named = set(re.findall(r"(?<=\s)--[a-z-]+(?![a-z.-])", own)) - {"--help"}
            wrong += [f"{name(path)}: waggle {command}{own}"] if not named <= known[command] else []
    assert wrong == []


def test_the_search_for_options_finds_them() -> None:
    text = "`waggle report runs/x --freeze P` # waggle train r.toml --arm all \\\n#  --nowhere 3"
    found = [(command, rest.split()) for command, rest in typed(text)]
    assert [command for command, _ in found] == ["report", "train"]
    assert "--freeze" in options("report") and "--nowhere" in found[1][1]
    assert "--nowhere" not in options("train")


def missing_paths(text: str, home: Path) -> set[str]:
    """Return the files and folders that a text names and that are not there."""
    quoted = re.findall(r"`([\w.-]+(?:/[\w.*-]+)*/?)`", text)
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    tops = {path.name for path in ROOT.iterdir()} - {"runs", "build"}
    named = {each for each in quoted if each.split("/")[0] in tops and "/" in each.rstrip("/")}
    named |= {each for each in quoted if re.fullmatch(r"[A-Z]+\.\w+|[a-z]+\.yml", each)}
    lost = {each for each in named if not any(ROOT.glob(each.rstrip("/")))}
    return lost | {each for each in linked if not (home / each).exists()}


def missing_names(text: str) -> set[str]:
    """Return the dotted names of the package, and attributes of its words, that do not exist."""
    dotted = set(re.findall(r"`(waggle(?:\.\w+)+)`", text))
    words = set(re.findall(r"`([A-Z]\w+\.[a-z]\w+)", text))
    return {each for each in dotted if not _resolves(each)} | {
        each for each in words if not _is_attribute(*each.split("."))
    }


def _resolves(dotted: str) -> bool:
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return all(hasattr(found, part) for part in parts[cut : cut + 1])
    return False


def _is_attribute(owner: str, attribute: str) -> bool:
    home = waggle if owner in waggle.__all__ else schema
    return hasattr(getattr(home, owner, None), attribute) or not hasattr(home, owner)


def test_every_path_that_a_text_names_is_there() -> None:
    lost = {name(page): missing_paths(read(page), page.parent) for page in PAGES}
    assert {page: paths for page, paths in lost.items() if paths} == {}


def test_every_name_of_the_package_that_a_text_names_is_there() -> None:
    lost = {name(page): missing_names(read(page)) for page in PAGES}
    assert {page: names for page, names in lost.items() if names} == {}


def test_the_search_for_names_and_paths_finds_them() -> None:
    text = "`waggle.core.admit` `waggle.nowhere.at.all` `Trace.claim` `Trace.size`"
    assert missing_names(text) == {"waggle.nowhere.at.all", "Trace.size"}
    text = "`src/waggle/core` `src/none` [x](none.md) [y](README.md)"
    assert missing_paths(text, ROOT) == {"src/none", "none.md"}


def test_the_glossary_names_metrics_that_exist() -> None:
    named = set(re.findall(r"metric `(\w+)`", read(ROOT / "docs" / "glossary.md")))
    assert named and named <= set(plugins.names("metric"))


def test_the_readme_keeps_its_length_and_its_place_for_results() -> None:
    text = read(ROOT / "README.md")
    assert len(text.splitlines()) <= 200
    assert text.index("<!-- results:begin -->") < text.index("<!-- results:end -->")


def test_the_layout_names_every_package_and_none_else() -> None:
    found = blocks(read(ROOT / "README.md"))
    (tree,) = (block.text for block in found if block.text.startswith("src/waggle/"))
    named = set(re.findall(r"^  ([a-z]+)/ ", tree, flags=re.M))
    assert named == {p.parent.name for p in (ROOT / "src" / "waggle").glob("*/__init__.py")}


def test_contributors_are_told_the_layers_that_the_linter_checks() -> None:
    contract = SETTINGS["tool"]["importlinter"]["contracts"][0]
    asked = [set(re.findall(r"waggle\.(\w+)", layer)) for layer in contract["layers"]]
    (told,) = re.findall(r"checks\): (.*?)\.\n", read(ROOT / "CONTRIBUTING.md"), flags=re.S)
    bare = re.sub(r"\(.*?\)", "", told, flags=re.S)
    assert [set(re.findall(r"\w+", layer)) for layer in bare.split(">")] == asked


def test_the_reference_of_commands_is_what_the_program_says() -> None:
    page = runpy.run_path(str(TOOLS / "cli.py"))["page"]
    assert read(CLI_PAGE) == page(), "run `make docs`, which writes docs/cli.md again"


def test_the_reference_of_recipe_keys_is_what_the_models_say() -> None:
    page = runpy.run_path(str(TOOLS / "recipes.py"))["page"]
    assert read(ROOT / "docs" / "recipes.md") == page(), "run `make docs`, which writes it again"
    assert "| `reference` | array of strings | — |" in page()


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").exists()
