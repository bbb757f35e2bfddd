"""Loading of PEFT adapters from a folder, whole or in shards.

PEFT reads one `adapter_model.safetensors`; a shipped adapter may be split into files of bounded
size with an index, as models are. Factors of plain LoRA are merged into the weights here, in
float32, so that only the sum is rounded; every other kind of adapter is left to PEFT. Invariant:
the adapted model is the same whichever way it was read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from waggle.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

WHOLE = "adapter_model.safetensors"
INDEX = f"{WHOLE}.index.json"
CONFIG = "adapter_config.json"
_MORE = (
    "use_dora", "rank_pattern", "alpha_pattern", "modules_to_save", "fan_in_fan_out", "lora_bias",
    "target_parameters", "trainable_token_indices", "alora_invocation_tokens",
)  # fmt: skip
"""Settings under which an adapter is more than a pair of factors per matrix."""


class Factors(NamedTuple):
    """The change of one matrix: scale times b times a."""

    a: Tensor
    b: Tensor
    scale: float

    def change(self, device: Any) -> Tensor:
        """Return the change itself, in float32."""
        return self.scale * (self.b.to(device).float() @ self.a.to(device).float())

    def onto(self, weight: Tensor) -> Tensor:
        """Return a matrix with the change added, rounded once to the matrix's dtype."""
        return (weight.float() + self.change(weight.device)).to(weight.dtype)


def factors(place: Path) -> dict[str, Factors] | None:
    """Return the factors of plain LoRA by matrix name, or None for another kind of adapter.

    Raises:
        ConfigError: when the folder holds no adapter.
    """
    config = _config(place)
    if config.get("peft_type") != "LORA" or config.get("bias", "none") != "none":
        return None
    if any(config.get(name) for name in _MORE):
        return None
    tensors = read(place)
    ends = (".lora_A.weight", ".lora_B.weight")
    names = {name.removesuffix(end) for name in tensors for end in ends if name.endswith(end)}
    if len(tensors) != 2 * len(names):
        return None
    rank, alpha = int(config.get("r", 8)), float(config.get("lora_alpha", 8))  # PEFT's defaults
    scale = alpha / (rank**0.5 if config.get("use_rslora") else rank)
    return {
        f"{name.removeprefix('base_model.model.')}.weight": Factors(
            tensors[name + ends[0]], tensors[name + ends[1]], scale
        )
        for name in sorted(names)
    }


def _config(place: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((place / CONFIG).read_text(encoding="utf-8"))
        int(found.get("r", 1)), float(found.get("lora_alpha", 1))
        return found
    except (OSError, ValueError, TypeError, AttributeError):
        raise ConfigError(
            f"{str(place)!r} is no PEFT adapter; give a folder with {CONFIG}"
        ) from None


def fitting(found: Mapping[str, Factors], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse factors that do not fit the matrices of a backbone.

    Raises:
        ConfigError: naming the first that does not fit.
    """
    for name, (a, b, _) in found.items():
        if a.shape[0] != b.shape[1] or shapes.get(name) != (b.shape[0], a.shape[1]):
            raise ConfigError(f"the adapter adapts another backbone ({name}); give its own model")


def adapt(model: Any, folder: str, merge: bool) -> Any:
    """Apply an adapter to a model, merged into its weights or kept separate.

    Raises:
        ConfigError: when the folder holds no adapter for it.
    """
    place = Path(folder).expanduser()
    found = factors(place) if merge else None
    if found is not None:
        matrices = dict(model.named_parameters())
        fitting(found, {name: tuple(matrix.shape) for name, matrix in matrices.items()})
        for name, pair in found.items():
            matrices[name].data = pair.onto(matrices[name].data)
        return model
    _config(place)
    peft: Any = import_module("peft")
    tensors = read(place)
    config = peft.PeftConfig.from_pretrained(str(place))
    config.inference_mode = True
    config.base_model_name_or_path = None  # the backbone is loaded already, under any name
    adapted = peft.get_peft_model(model, config).eval()
    fill(adapted, tensors, folder)
    return adapted.merge_and_unload() if merge else adapted


def fill(adapted: Any, tensors: dict[str, Any], folder: str) -> None:
    """Load the tensors of a folder into a PEFT model.

    Raises:
        ConfigError: if a tensor is unexpected, missing or of another size.
    """
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
