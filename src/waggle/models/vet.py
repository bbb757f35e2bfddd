"""Checks of a folder of foreign weights before a library opens any of its files.

File sizes and counts of the configuration are bounded, and the parts that behave like programs
(tokenizer, chat template, patterns of an adapter) are tried in a separate process with bounded time
and memory (`waggle.models.trial`). Code in a folder is never run. Folders that this package made or
ships are exempt. A folder is checked once per process while its files stay the same. Invariant: a
folder that fails costs at most `MEMORY` bytes and `SECONDS` of CPU time, and one line gives the
reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from waggle import shipped
from waggle.core import prompt
from waggle.core.errors import ConfigError
from waggle.models import trial
from waggle.models.fetch import cache_dir

SECONDS = 20
"""Maximum CPU time of a trial, in seconds. A tokenizer of 256,000 tokens takes two."""
MEMORY = 768 << 20
"""Maximum memory of a trial, in bytes."""
MAX_RANK = 1 << 14
SMALL = 50_000_000
"""Number of weights that may be missing; the library that loads the rest reports it."""
MAX_SETTINGS = 4 << 20
"""Maximum size of a settings file, in bytes."""
MAX_TABLE = 64 << 20
"""Maximum size of a tokenizer or weight index, in bytes; the largest in use have half of it."""
_TABLES = ("tokenizer.json", "vocab.json", "model.safetensors.index.json",
           "adapter_model.safetensors.index.json")  # fmt: skip
_READ = (".json", ".jinja", ".txt", ".model", ".tiktoken")
"""Suffixes of files that libraries read whole."""
_COUNTS = {
    "vocab_size": trial.MAX_ID, "hidden_size": 1 << 17, "intermediate_size": 1 << 20,
    "num_hidden_layers": 1 << 10, "num_attention_heads": 1 << 12, "num_key_value_heads": 1 << 12,
    "head_dim": 1 << 12, "max_position_embeddings": 1 << 26, "num_experts": 1 << 14,
    "num_local_experts": 1 << 14,
}  # fmt: skip
"""Largest plausible counts of a configuration, far above the largest models."""
_CODE = "_implementation"
"""Suffix of settings that may name code on the hub."""
_PATTERNS = ("target_modules", "exclude_modules", "layers_pattern")


def require_sound(folder: Path, adapter: Path | None = None) -> None:
    """Refuse a folder of weights, or an adapter for it, that cannot be opened safely.

    Raises:
        ConfigError: with one line that gives the reason and the fix.
    """
    for place in (folder, adapter):
        if place is not None:
            _require_sizes(place)
    own = folder.resolve()
    made = own.is_relative_to(cache_dir().resolve()) or own.is_relative_to(shipped.ROOT.resolve())
    patterns = () if adapter is None else _patterns(adapter)
    if made and not patterns:
        return
    if not made:
        _require_counts(folder)
    reason = _tried(str(own), patterns, _stamps(own), SECONDS, MEMORY)
    if reason:
        raise _refusal(folder, reason)


def _refusal(place: Path, reason: str) -> ConfigError:
    return ConfigError(f"cannot load the model in {place} ({reason}); fetch or export it again")


def _require_sizes(place: Path) -> None:
    for path in [*place.glob("*"), *place.glob("additional_chat_templates/*")]:
        table = path.name in _TABLES or path.suffix not in (".json", ".jinja")
        most = MAX_TABLE if table else MAX_SETTINGS
        if path.suffix in _READ and path.is_file() and (size := path.stat().st_size) > most:
            raise _refusal(place, f"{path.name} has {size:,} bytes, more than {most:,}")


def _stamps(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return names, sizes and modification times of the files that a trial opens."""
    found = [path for path in sorted(folder.glob("*")) if path.suffix in _READ]
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in found)


def _settings(path: Path) -> dict[str, Any]:
    """Return the object in a settings file; anything else gives {} and is left to its library."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _require_counts(folder: Path) -> None:
    for name in ("config.json", "generation_config.json"):
        for key, value in _leaves(_settings(folder / name)):
            if isinstance(value, str):
                # Transformers would fetch a kernel of that name from the hub, and run it.
                wrong = key.endswith(_CODE) and "/" in value
            else:
                most = trial.MAX_ID if key.endswith("_token_id") else _COUNTS.get(key)
                least = -1 if key.endswith("_token_id") else 1
                wrong = most is not None and not least <= value <= most
            if wrong:
                raise _refusal(folder, f"{key} of {name} is {value!r}")
    _require_weights(folder)


def _require_weights(folder: Path) -> None:
    """Refuse a configuration of far more weights than its folder has: they would be made up."""
    raw = _settings(folder / "config.json")
    width, deep, words = (raw.get(k) for k in ("hidden_size", "num_hidden_layers", "vocab_size"))
    if isinstance(width, int) and isinstance(deep, int) and isinstance(words, int):
        least = width * words + deep * width**2
        files = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
        there = sum(path.stat().st_size for path in files)
        if least > max(8 * there, SMALL):
            raise _refusal(folder, f"{least:,} weights or more in {there:,} bytes")


def _leaves(raw: Any) -> Iterator[tuple[str, float | str]]:
    """Yield the names and values of all numbers and strings in a nested configuration."""
    waiting: list[tuple[str, Any]] = [("", raw)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            kept = key.endswith(_CODE)
            waiting += ((key if kept else name, part) for name, part in value.items())
        elif isinstance(value, list):
            waiting += ((key, part) for part in value)
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            yield key, value


def _patterns(adapter: Path) -> tuple[str, ...]:
    """Check the ranks and scales of an adapter, and return its regular expressions.

    Raises:
        ConfigError: for an implausible rank or scale.
    """
    raw = _settings(adapter / "adapter_config.json")
    by_name = {name: raw.get(name) or {} for name in ("rank_pattern", "alpha_pattern")}
    if not all(isinstance(found, dict) for found in by_name.values()):
        raise _refusal(adapter, "rank_pattern and alpha_pattern name no values")
    for rank in [raw.get("r", 8), *by_name["rank_pattern"].values()]:
        if not isinstance(rank, int) or not 1 <= rank <= MAX_RANK:
            raise _refusal(adapter, f"its rank is {rank!r}, not from 1 to {MAX_RANK:,}")
    for scale in [raw.get("lora_alpha", 8), *by_name["alpha_pattern"].values()]:
        if not isinstance(scale, int | float) or not isfinite(scale) or abs(scale) > 1e6:
            raise _refusal(adapter, f"its alpha is {scale!r}")
    found = [raw[name] for name in _PATTERNS if isinstance(raw.get(name), str)]
    return (*found, *by_name["rank_pattern"], *by_name["alpha_pattern"])


@lru_cache(maxsize=64)
def _tried(
    folder: str, patterns: tuple[str, ...], _: tuple[tuple[str, int, int], ...],
    seconds: int, memory: int,
) -> str:  # fmt: skip
    """Return the problem that a trial of the folder found; empty if it passed."""
    user = {"role": "user", "content": f"Task actions: WAIT.\nView: {_SAMPLE}"}
    start = [{"role": "system", "content": prompt.system()}, user]
    again = [*start, {"role": "assistant", "content": "{"}, {"role": "user", "content": "Again."}]
    wanted = {
        "folder": folder, "chats": [start, again], "patterns": patterns,
        "seconds": seconds, "memory": memory,
    }  # fmt: skip
    command = [sys.executable, "-P", str(trial.__file__)]
    try:  # the machine may be busy, so the wall-clock limit exceeds that on CPU time
        done = subprocess.run(
            command, input=json.dumps(wanted), capture_output=True, text=True, check=False,
            timeout=3 * seconds,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return f"its tokenizer or chat template takes longer than {seconds} seconds"
    if done.stdout or done.returncode == 0:
        return done.stdout
    return (
        "its tokenizer, chat template or patterns take more than "
        f"{seconds} seconds or {memory >> 20:,} MiB"
    )


_SAMPLE = '{"native":{"x":-3.5,"é":["h3x"," "]},"traces":[]}' + "a" * 400 + " " * 400 + "1" * 400
"""Text like a prompt's, with runs on which careless regular expressions take for ever."""
