"""Add the generated pages of `docs/results` to the navigation, after the section's first page.

mkdocs calls `on_config` (see `hooks` in mkdocs.yml). Titles are the first headings of the pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FIRST = ("results/index.md", "results/summary.md", "results/primary.md")
"""Pages that come first; the others follow by name."""


def on_config(config: Any) -> Any:
    """Insert every page of results/ into the section Results."""
    docs = Path(config["docs_dir"])
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.glob("results/**/*.md"))
    pages.sort(key=lambda page: FIRST.index(page) if page in FIRST else len(FIRST))
    (section,) = (entry["Results"] for entry in config["nav"] if "Results" in entry)
    section[1:1] = pages
    return config
