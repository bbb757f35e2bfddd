"""Models of the Hugging Face hub: which revision is on this machine, and how another gets here.

A name of the hub stands for other weights after its owner changed them; a revision does not. So the
revision that the local cache holds is the one that is loaded and named in digests, until the model
is fetched again. Invariant: loading moves no name to another revision.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError


def snapshot(name: str) -> Path | None:
    """Return the folder of the revision that the cache holds, or None where it holds none.

    The folder is called after the commit of the revision.
    """
    try:
        library: Any = import_module("huggingface_hub")
        found = library.try_to_load_from_cache(name, "config.json")
    except (ImportError, ValueError):  # not installed, or no name that the hub could have
        return None
    return Path(found).parent if isinstance(found, str) else None


def download(name: str, revision: str | None = None) -> Path:
    """Return the folder of a revision, by default the newest, with what is missing fetched.

    Raises:
        ConfigError: when it cannot be reached.
    """
    library: Any = import_module("huggingface_hub")
    skipped = ["*.pth", "original/*"]
    try:
        return Path(library.snapshot_download(name, revision=revision, ignore_patterns=skipped))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        raise ConfigError(
            f"cannot fetch {name} ({reason}); go online or accept its licence on the hub, "
            "or give a local folder instead"
        ) from error
