"""Result files beside the rows: JSON objects, validated when read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError

MAX_BYTES = 64 << 20
"""A diagnosis holds a value and a name per view and transition: a few hundred kilobytes."""


def read_result(path: Path, what: str) -> dict[str, Any]:
    """Return the object in a file; values that could not be measured are NaN.

    Raises:
        ConfigError: if the file holds no object; the message states what it should hold.
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
