"""The rivals by name.

Invariant: naming one imports nothing of it; a library is imported when it is measured.
"""

from __future__ import annotations

from benchmarks.rivals import ctranslate2_rival, llama_rival, openvino_rival
from benchmarks.rivals.job import Rival
from waggle.core.errors import ConfigError, suggest

RIVALS: dict[str, Rival] = {
    "openvino": openvino_rival.RIVAL,
    "ctranslate2": ctranslate2_rival.RIVAL,
    "llama.cpp": llama_rival.RIVAL,
}
INSTALL = "pip install 'waggle-swarm[rivals]'"


def chosen(names: str) -> list[str]:
    """Return the rivals of a comma-separated list; `all` stands for every one.

    Raises:
        ConfigError: for a name that is none.
    """
    asked = [name.strip() for name in names.split(",") if name.strip()]
    if "all" in asked:
        return list(RIVALS)
    for name in asked:
        if name not in RIVALS:
            raise ConfigError(
                f"rival {name!r} is unknown{suggest(name, list(RIVALS))}; "
                f"use all, or some of {', '.join(RIVALS)}"
            )
    return list(dict.fromkeys(asked))
