"""Loading of a model and its tokenizer onto a device, by name.

`load` returns a transformers model; `load_to_decode` returns weights for the engine without
importing transformers if the folder is plain (see `bare`), and the same model as `load` otherwise.
"""

from __future__ import annotations

import atexit
import gc
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
"""Environment variable of CUDA MPS that limits a process to a part of the GPU's processors."""

_DATA_ONLY = {"trust_remote_code": False, "local_files_only": True}
"""Load a folder as data: none of its code is run, no prompt is shown, nothing more is fetched."""


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
        dtype: `float32`, `bfloat16`, or `auto` (bfloat16 if the machine computes in it natively).
        adapter: folder of a PEFT adapter to put on the base model.
        merge: merge the adapter into the weights, which is faster; otherwise keep it separate.
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
    except Exception as error:  # each underlying library raises its own errors for a damaged folder
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
    """Load a model and its tokenizer for the engine only: like `load`, but faster if possible.

    `runs` returns whether the engine runs a model of a configuration from its weights alone.
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


def freeze_loaded() -> None:
    """Exempt all objects that exist now from garbage collection, until the process exits.

    A loaded model stays, and scanning it again and again takes time. At exit everything is
    collected once more, because Triton reports whatever never was as leaked.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)


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

    On one H200 the limit made results wrong without an error: at 30 % none of 3,552 decisions was
    valid (3,551 without the setting), and a training run had losses that were NaN.
    """
    text = os.environ.get(PROCESSORS, "100").strip()
    if text not in ("", "100", "100.0"):
        raise ConfigError(
            f"{PROCESSORS}={text[:40]!r} has made results of a GPU wrong; unset it "
            "(WAGGLE_GPU_SHARE shares memory instead)"
        )


def pick_dtype(dtype: str, device: str) -> Any:
    """Resolve `auto` to bfloat16 if the machine computes in it natively, else float32.

    For `int8`, weights are loaded in float32 and the engine rounds them.
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
