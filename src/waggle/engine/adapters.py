"""PEFT adapters from a folder, whole or in shards.

PEFT itself reads one `adapter_model.safetensors`; a shipped adapter may be cut into files of
bounded size with an index, as models are. Invariant: the adapted model is the same either way.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError

WHOLE = "adapter_model.safetensors"
INDEX = f"{WHOLE}.index.json"
CONFIG = "adapter_config.json"


def adapt(model: Any, folder: str, merge: bool) -> Any:
    """Put an adapter on a model, folded into its weights or kept apart.

    Raises:
        ConfigError: when the folder holds no adapter for it.
    """
    place = Path(folder).expanduser()
    if not (place / CONFIG).is_file():
        raise ConfigError(f"{folder!r} is no PEFT adapter; give a folder with {CONFIG}")
    peft: Any = import_module("peft")
    tensors = read(place)
    config = peft.PeftConfig.from_pretrained(str(place))
    config.inference_mode = True
    config.base_model_name_or_path = None  # the backbone is here already, under any name
    adapted = peft.get_peft_model(model, config).eval()
    _fill(adapted, tensors, folder)
    return adapted.merge_and_unload() if merge else adapted


def _fill(adapted: Any, tensors: dict[str, Any], folder: str) -> None:
    """Put the tensors in; every one must find its place, and every place its tensor."""
    peft: Any = import_module("peft")
    try:
        found = peft.set_peft_model_state_dict(adapted, tensors)
        astray = [*found.unexpected_keys, *(k for k in found.missing_keys if ".lora_" in k)]
    except RuntimeError:
        astray = ["sizes differ"]
    if astray:
        raise ConfigError(f"{folder!r} adapts another backbone ({astray[0]}); give its own model")


def read(place: Path) -> dict[str, Any]:
    """Return the tensors of an adapter folder."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    tensors: dict[str, Any] = {}
    try:
        for path in _files(place):
            tensors |= load_file(path)
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"cannot read the adapter in {place} ({error}); export it again"
        ) from None
    return tensors


def _files(place: Path) -> list[Path]:
    """Return the files an adapter consists of."""
    if (place / WHOLE).is_file():
        return [place / WHOLE]
    try:
        names = set(json.loads((place / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError):
        raise ConfigError(f"{place} holds neither {WHOLE} nor its index; export it again") from None
    if any(Path(str(name)).name != name for name in names):
        raise ConfigError(f"{place / INDEX} names files outside its folder; export it again")
    return [place / name for name in sorted(names)]
