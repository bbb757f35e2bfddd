"""Add two recorded episodes to the site, as pages of the viewer that readers can play.

mkdocs calls `on_post_build` (see `hooks` in mkdocs.yml). The records are in the folder `episodes`
beside this file. They were recorded with

    waggle run silo/III-26 -n 16 --seed 22000 --rounds 18 --shock --law nano
    waggle run pursuit -n 8 --seed 10001 --rounds 20 --law expert
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from waggle.view.export import export
from waggle.view.library import Library


def on_post_build(config: Any) -> None:
    """Export the records into the folder `episodes` of the site."""
    folder = Path(config["site_dir"]) / "episodes"
    shutil.rmtree(folder, ignore_errors=True)
    export(Library(Path(__file__).with_name("episodes")), folder)
