"""`waggle new`: a law, metric, substrate or worker of your own, with its test and its page."""

from __future__ import annotations

import re
from keyword import iskeyword
from pathlib import Path

from waggle import plugin_files, plugins
from waggle.cli import console
from waggle.cli.options import AsJson
from waggle.cli.setup.starters import STARTERS, Kind
from waggle.core.errors import ConfigError


def new(kind: Kind, name: str, /, *, to: Path = Path(), json: AsJson = False) -> None:
    """Create a law, metric, substrate or worker from a template.

    Writes a working file, a passing test and a page of documentation; existing files are not
    overwritten. Use the file with `--plugin FILE.py`, which every command accepts, or a worker with
    `--worker FILE.py:NAME`. Example:

    `waggle new law hermit && waggle run beacon --law hermit --plugin hermit.py`

    Args:
        kind: What to create.
        name: Name in lowercase letters, digits, - and _; also used for the file.
        to: Output folder; created if missing.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or iskeyword(name):
        raise ConfigError(
            f"{name!r} is no name; use small letters, digits, - and _, as in my-law, and no "
            "keyword of Python"
        )
    if kind != "worker" and name in plugins.names(kind):
        raise ConfigError(f"{kind} {name!r} is there already; choose another name")
    module = name.replace("-", "_")
    plugin_files.refuse_taken(module, (to / f"{module}.py").resolve())
    words = {"name": name, "module": module, "kind": kind, "cls": _class(module)}
    code, test, docs = (text.substitute(words) for text in STARTERS[kind])
    files = {f"{module}.py": code, f"test_{module}.py": test, f"{module}.md": docs}
    there = [file for file in files if (to / file).exists()]
    if there:
        raise ConfigError(f"{to / there[0]} is there already; choose another name or --to")
    to.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (to / file).write_text(text, encoding="utf-8")
    if json:
        console.dump({"files": [str(to / file) for file in files]})
        return
    console.say(f"written: {', '.join(str(to / file) for file in files)}")
    console.say(
        f"try it: python -m pytest {to / f'test_{module}.py'}; {to / f'{module}.md'} has more"
    )


def _class(module: str) -> str:
    return "".join(part.capitalize() for part in module.split("_"))
