"""A model and its tokenizer on a device, by name.

`load` gives a transformers model; `load_to_decode` gives the engine its weights without importing
transformers where the folder is plain (see `bare`), and the same model otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.models.adapters import adapt
from waggle.models.fetch import path, quiet, require_llm
from waggle.models.vet import require_sound

PROCESSORS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""Setting of the multi-process service that gives a process a part of the GPU's processors."""

_DATA_ONLY = {"trust_remote_code": False, "local_files_only": True}
"""A folder is data: its code is not run, nobody is asked whether to, nothing more is fetched."""


def load(
    name: str,
    device: str = "auto",
    dtype: str = "auto",
    adapter: str | None = None,
    merge: bool = True,
) -> tuple[Any, Any]:
    """Load a model and its tokenizer.

    Args:
        name: a catalog name, a Hugging Face id or a folder.
        device: `cpu`, `cuda`, or `auto`.
        dtype: `float32`, `bfloat16`, or `auto` (bfloat16 where the machine computes in it).
        adapter: folder of a PEFT adapter to put on the base model.
        merge: fold the adapter into the weights (fast); otherwise keep it apart.
    """
    require_llm()
    where = pick_device(device)
    kind = pick_dtype(dtype, where)
    if name == "tiny-random":
        from waggle.models.nano import tiny_random

        model, tokenizer = tiny_random()
        model = model.to(kind)
    else:
        folder = path(name)
        require_sound(folder, None if adapter is None else Path(adapter).expanduser())
        model, tokenizer = _read(folder, kind)
    if adapter is not None:
        model = adapt(model, adapter, merge)
    return model.to(where).eval(), tokenizer


def _read(folder: Path, dtype: Any) -> tuple[Any, Any]:
    """Read a folder with transformers; a folder that lacks weights is refused."""
    library: Any = import_module("transformers")
    try:
        with quiet():
            tokenizer = library.AutoTokenizer.from_pretrained(str(folder), **_DATA_ONLY)
            model, report = library.AutoModelForCausalLM.from_pretrained(
                str(folder), dtype=dtype, output_loading_info=True, **_DATA_ONLY
            )
    except Exception as error:  # every library underneath has its own for a damaged folder
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ConfigError(
            f"cannot load the model in {folder} ({reason}); fetch or export it again"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ConfigError(
            f"the model in {folder} lacks weights ({missing[0]}); fetch or export it again"
        )
    return model, tokenizer


def load_to_decode(
    name: str,
    runs: Callable[[Any], bool],
    device: str = "auto",
    dtype: str = "auto",
    adapter: str | None = None,
    merge: bool = True,
) -> tuple[Any, Any]:
    """Load a model and its tokenizer for an engine alone: as `load` does, but sooner if possible.

    `runs` says of a configuration whether the engine runs such a model from its weights alone.
    """
    if (adapter is None or merge) and name != "tiny-random":
        require_llm("torch")
        from waggle.models.bare import open_bare

        where = pick_device(device)
        folder, put_on = path(name), None if adapter is None else Path(adapter).expanduser()
        require_sound(folder, put_on)
        found = open_bare(folder, where, pick_dtype(dtype, where), runs, put_on)
        if found is not None:
            return found
    return load(name, device, dtype, adapter, merge)


def load_tokenizer(name: str) -> Any:
    """Load only the tokenizer of a model."""
    require_llm()
    if name == "tiny-random":
        from waggle.models.nano import byte_tokenizer

        return byte_tokenizer()
    library: Any = import_module("transformers")
    folder = path(name)
    require_sound(folder)
    return library.AutoTokenizer.from_pretrained(str(folder), **_DATA_ONLY)


def pick_device(device: str) -> str:
    """Resolve `auto`; refuse a device that is missing, unknown, or known to compute wrongly."""
    torch: Any = import_module("torch")
    present = bool(torch.cuda.is_available())
    if present and device.startswith(("auto", "cuda")):
        _require_all_processors()
    if device == "auto":
        return "cuda" if present else "cpu"
    if device.startswith("cuda") and not present:
        raise ConfigError("no CUDA device here; use --law.device cpu or auto")
    try:
        known = torch.device(device).type in ("cuda", "cpu")
    except RuntimeError:
        known = False
    if not known:
        raise ConfigError(f"device {device!r} is unknown; use cpu, cuda or auto")
    return device


def _require_all_processors() -> None:
    """Refuse a GPU of which this process may use only a part of the processors.

    On one H200 this made results wrong without an error: of 3,552 decisions none was valid at 30 %
    (3,551 without the setting), and a training run got losses that are not numbers.
    """
    text = os.environ.get(PROCESSORS, "100").strip()
    if text not in ("", "100", "100.0"):
        raise ConfigError(
            f"{PROCESSORS}={text[:40]!r} has made results of a GPU wrong; unset it "
            "(WAGGLE_GPU_SHARE shares memory instead)"
        )


def pick_dtype(dtype: str, device: str) -> Any:
    """Resolve `auto` to bfloat16 where the machine computes in it, else float32.

    For `int8` weights are loaded in float32: the engine rounds them.
    """
    torch: Any = import_module("torch")
    if dtype in ("float32", "bfloat16"):
        return getattr(torch, dtype)
    if dtype == "int8":
        return torch.float32
    if dtype != "auto":
        raise ConfigError(f"dtype {dtype!r} is unknown; use auto, float32, bfloat16 or int8")
    if device.startswith("cuda"):
        return torch.bfloat16
    native = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
    return torch.bfloat16 if native else torch.float32
