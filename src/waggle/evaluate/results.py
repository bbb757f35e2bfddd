"""Files of results that lie beside rows: JSON objects, read with distrust."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError

MAX_BYTES = 64 << 20
"""A diagnosis holds a value and a name for every view and transition: some hundred kilobytes."""


def read_result(path: Path, what: str) -> dict[str, Any]:
    """Return the object in a file; what could not be measured is NaN there.

    Raises:
        ConfigError: if the file holds none, saying what it should hold.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it is over {MAX_BYTES >> 20} MiB long")
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} holds no {what} ({error}); remove it") from None
    return found
