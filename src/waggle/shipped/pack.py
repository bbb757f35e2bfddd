"""Packing: making a shippable folder from the folder that training exported.

Weights are cast to bfloat16 and split into files of bounded size with an index, in the layout of
transformers; the files needed to load them are copied; every file gets a digest in `law.json`.
Invariant: a folder under its final name is complete and within the size limits.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from waggle.core.errors import ConfigError
from waggle.shipped import CARD, LAW, LOADED, MAX_FILE, MAX_WHOLE, RESULTS, Manifest, stamp_of

EXPORTED = "waggle.json"
"""The file that training writes beside the weights."""
_CONFIG = {"full": "config.json", "lora": "adapter_config.json", "dense": "adapter_config.json"}
_TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
)  # fmt: skip
_LOAD_SETTINGS = ("is_local", "local_files_only")
"""Tokenizer settings that record how it was loaded."""


class PackReport(msgspec.Struct, frozen=True):
    """The result of a packing."""

    folder: Path
    manifest: Manifest
    rounded: bool
    """Whether rounding changed the exported weights."""


def pack(
    source: Path, target: Path, results: Mapping[str, Any], card: str = "", name: str = ""
) -> PackReport:
    """Write a shippable folder from an exported law.

    Args:
        source: the `law` folder of a training run.
        target: the folder to make. An existing one is replaced, except for its Python files: the
            folder of a distribution is a package.
        results: measured results by name, kept as `results.json`.
        card: text of the model card.
        name: the law's name. Default: the name of the folder.

    Raises:
        ConfigError: when the source is not an exported law or is too large to ship.
    """
    about = _exported(source)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        parameters, rounded = _write(source, partial, about["kind"])
        (partial / RESULTS).write_text(_text(results), encoding="utf-8")
        (partial / CARD).write_text(card, encoding="utf-8")
        found = stamped(partial, _manifest(name or target.name, about, results, parameters))
        _check_size(found)
        (partial / LAW).write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
        for module in target.glob("*.py"):
            shutil.copyfile(module, partial / module.name)
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return PackReport(target, found, rounded)


def rewrite(folder: Path, manifest: Manifest, results: Mapping[str, Any], card: str) -> Manifest:
    """Replace results and card of a shippable folder; the weights stay unchanged."""
    (folder / RESULTS).write_text(_text(results), encoding="utf-8")
    (folder / CARD).write_text(card, encoding="utf-8")
    found = stamped(folder, manifest)
    (folder / LAW).write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return found


def stamped(folder: Path, manifest: Manifest) -> Manifest:
    """Return a manifest with the digests of the card and of every file that is loaded."""
    names = sorted(p.name for p in folder.iterdir() if p.suffix in LOADED or p.name == CARD)
    found = {name: stamp_of(folder / name) for name in names if name != LAW}
    stamps = {name: stamp for name, stamp in found.items() if stamp}
    return msgspec.structs.replace(manifest, files=stamps)


def _exported(source: Path) -> dict[str, Any]:
    try:
        about = json.loads((source / EXPORTED).read_text(encoding="utf-8"))
        if about["kind"] not in _CONFIG or about["order"] not in ("shuffled", "canonical"):
            raise ValueError("kind or order is unknown")
        return {"card": {}, "recipe": {}, **about}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{source} is no exported law ({error}); give the `law` folder of `waggle train`"
        ) from None


def _manifest(
    name: str, about: Mapping[str, Any], results: Mapping[str, Any], parameters: int
) -> Manifest:
    card, recipe = dict(about["card"]), dict(about.get("learning") or about["recipe"])
    corpus = {k: v for k in ("harvest", "corpus") if (v := recipe.get(k))}
    corpus |= {"tokens": results["tokens"]} if "tokens" in results else {}
    seeds = {"training": card.get("training seed"), "corpus": recipe.get("corpus", {}).get("seed"),
             "harvest": recipe.get("harvest", {}).get("seed"),
             "transitions": recipe.get("transitions", {}).get("seed")}  # fmt: skip
    return Manifest(
        name=name,
        kind=about["kind"],
        backbone=str(about["backbone"]),
        order=about["order"],
        teacher=str(card.get("teacher", "unknown")),
        parameters=parameters,
        seeds={key: value for key, value in seeds.items() if value is not None},
        corpus=corpus,
        recipe=recipe,
        training=card,
        earlier=tuple(about.get("earlier", ())),
    )


def _write(source: Path, target: Path, kind: str) -> tuple[int, bool]:
    """Write weights, configuration and tokenizer.

    Returns:
        the number of weights, and whether they were rounded.
    """
    import torch
    from safetensors.torch import load_file

    stem = "model" if kind == "full" else "adapter_model"
    tensors: dict[str, Any] = {}
    for path in sorted(source.glob(f"{stem}*.safetensors")):
        tensors |= load_file(path)
    if not tensors:
        raise ConfigError(f"{source} holds no {stem}.safetensors; export the law again")
    cast = {
        name: tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
        for name, tensor in sorted(tensors.items())
    }
    _write_shards(cast, target, stem)
    config = json.loads((source / _CONFIG[kind]).read_text(encoding="utf-8"))
    if kind == "full":
        config["dtype"] = "bfloat16"
        for name in _TOKENIZER:
            if (source / name).is_file():
                shutil.copyfile(source / name, target / name)
        _drop_load_settings(target / "tokenizer_config.json")
    (target / _CONFIG[kind]).write_text(_text(config), encoding="utf-8")
    rounded = any(cast[name].dtype != tensor.dtype for name, tensor in tensors.items())
    return sum(int(tensor.numel()) for tensor in tensors.values()), rounded


def _drop_load_settings(path: Path) -> None:
    """Remove the settings of a tokenizer that record how it was loaded."""
    if path.is_file():
        settings = json.loads(path.read_text(encoding="utf-8"))
        kept = {name: settings[name] for name in settings if name not in _LOAD_SETTINGS}
        path.write_text(_text(kept), encoding="utf-8")


def _write_shards(tensors: Mapping[str, Any], target: Path, stem: str) -> None:
    """Write tensors into files of bounded size with an index."""
    from safetensors.torch import save_file

    groups = list(_groups(tensors))
    names: dict[str, str] = {}
    for number, group in enumerate(groups, start=1):
        name = f"{stem}-{number:05d}-of-{len(groups):05d}.safetensors"
        save_file(group, target / name, metadata={"format": "pt"})
        (target / name).chmod(0o644)  # the library makes files readable by their owner only
        names |= dict.fromkeys(group, name)
    size = sum(_size(tensor) for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": names}
    (target / f"{stem}.safetensors.index.json").write_text(_text(index), encoding="utf-8")


def _groups(tensors: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Split tensors into groups that fit into one file, header included."""
    room = MAX_FILE - (256 << 10)
    group: dict[str, Any] = {}
    used = 0
    for name, tensor in tensors.items():
        if group and used + _size(tensor) > room:
            yield group
            group, used = {}, 0
        group[name] = tensor.contiguous()
        used += _size(tensor)
    yield group


def _size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _check_size(manifest: Manifest) -> None:
    large = [name for name, stamp in manifest.files.items() if stamp.bytes > MAX_FILE]
    if large:
        raise ConfigError(f"{large[0]} is over {MAX_FILE >> 20} MiB; train a smaller law")
    most = MAX_WHOLE[manifest.kind]
    if manifest.bytes > most:
        raise ConfigError(
            f"the law has {manifest.bytes / 1e6:.1f} MB, over {most / 1e6:.0f}; "
            "lower the rank (--rank) or train a smaller law"
        )


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"
