"""The README of the package index: links and the picture of README.md with absolute addresses.

A checkout shows README.md as it is; an index knows no files beside it. The address of the
repository stands in one place, `Repository` in `[project.urls]` of pyproject.toml. Without one,
links to files are their words alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Readme(MetadataHookInterface):
    """Fills in the dynamic field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the project."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = absolute(text, metadata.get("urls", {}).get("Repository"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, repository: str | None) -> str:
    """Return a Markdown text whose relative links lead to the repository, pictures to files."""

    def lead(link: re.Match[str]) -> str:
        if repository is None:
            return "" if link[1] else link[2]
        way = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({repository}/{way}/HEAD/{link[3]})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)", lead, text)
