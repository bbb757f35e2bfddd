"""Write docs/cli.md, the command reference, from the help texts of the commands.

    python docs/tools/cli.py docs/cli.md

The page depends on the code alone; a test compares it with the program's help texts.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cyclopts import Parameter

from waggle.built_in import BUILT_IN
from waggle.cli.main import COMMANDS, EPILOGUE, GROUPS, build

HEAD = f"""# Commands

`make docs` writes this page from the help texts of the commands. Every command has `--help`, and
`--json` where it reports something. {EPILOGUE}
"""


def page() -> str:
    """Return the whole page: commands in the program's order, with a heading before each group."""
    parts, opened = [HEAD], set()
    for name in COMMANDS:
        group = name.split()[0]
        if group in GROUPS and group not in opened:
            opened.add(group)
            parts.append(f"## waggle {group}\n\n{GROUPS[group]}\n")
        parts.append(entry(name, level=3 if group in GROUPS else 2))
    return "\n".join(parts)


def entry(name: str, level: int) -> str:
    """Return one command as Markdown."""
    words = name.split()
    app = build([*words, *BUILT_IN["substrate"]] if name == "run" else words)
    for word in words:
        app = app[word]
    app.default_parameter = Parameter(negative_iterable=())
    body = app.generate_docs(recursive=False).partition("\n")[2]
    usage, body = re.split(r"```console\n(.*)\n", body, maxsplit=1)[1:]
    rest = re.sub(r"^ -m \S+", "", usage.partition(words[-1])[2])  # how this program was started
    body = f"```text\nwaggle {name}{rest}\n{body}"
    body = re.sub(r"\n    +(?=\S)", " ", body)  # an option is one line
    body = re.sub(r"\n{3,}", "\n\n", body).strip()
    return f"{'#' * level} waggle {name}\n\n{body}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
