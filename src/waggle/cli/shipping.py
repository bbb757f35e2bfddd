"""`waggle law pack | card`: from a trained law to one that ships, with its model card."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waggle import shipped
from waggle.cli import console
from waggle.core.errors import ConfigError

if TYPE_CHECKING:
    from waggle.shipped import Manifest

MAX_JSON = 64 << 20


def pack(
    source: Path,
    name: str,
    /,
    *,
    out: Path = shipped.ROOT,
    diagnosis: Sequence[Path] = (),
    stats: Path | None = None,
    run: Sequence[Path] = (),
    notes: Path | None = None,
) -> None:
    """Make a trained law shippable: bfloat16 shards, digests, results, model card.

    The folder replaces one of the same name only when it is complete. Results can be given now or
    later with `waggle law card`.

    Args:
        source: The `law` folder of a training run.
        name: Name of the shipped law, such as nano.
        out: Folder that holds the shipped laws.
        diagnosis: JSON files of `waggle diagnose --out`; the file name is the column.
        stats: JSON file of `waggle corpus stats --json`.
        run: Run directories of `waggle eval`.
        notes: Text file with known failures in words, one a line.
    """
    from waggle.report.model_card import card
    from waggle.shipped.pack import pack as write
    from waggle.shipped.pack import rewrite

    if name not in shipped.NAMES:
        raise ConfigError(f"{name!r} is no law that ships; use {' or '.join(shipped.NAMES)}")
    found = _gather({}, diagnosis, stats, run, notes)
    made = write(source, out / name, found)
    law = rewrite(made.folder, made.manifest, found, card(made.manifest, found))
    console.say(_told(law, made.folder))


def card(
    folder: Path,
    /,
    *,
    diagnosis: Sequence[Path] = (),
    stats: Path | None = None,
    run: Sequence[Path] = (),
    notes: Path | None = None,
) -> None:
    """Write the model card of a shippable law again, with further results.

    Results of the same name are replaced, the others stay; no number is typed by hand.

    Args:
        folder: The folder of the law, or the name of one that ships.
        diagnosis: JSON files of `waggle diagnose --out`; the file name is the column.
        stats: JSON file of `waggle corpus stats --json`.
        run: Run directories of `waggle eval`.
        notes: Text file with known failures in words, one a line.
    """
    from waggle.report.model_card import card as text
    from waggle.shipped.pack import rewrite

    place = shipped.folder(str(folder)) if str(folder) in shipped.NAMES else folder
    law = shipped.manifest(place)
    known = place / shipped.RESULTS
    found = _gather(_json(known) if known.exists() else {}, diagnosis, stats, run, notes)
    console.say(_told(rewrite(place, law, found, text(law, found)), place))


def _told(law: Manifest, folder: Path) -> str:
    return (
        f"{law.name}: {law.parameters:,} weights, {law.bytes:,} bytes in {len(law.files)} files, "
        f"order {law.order}, teacher {law.teacher}; card: {folder / shipped.CARD}"
    )


def _gather(
    known: dict[str, Any],
    diagnosis: Sequence[Path],
    stats: Path | None,
    runs: Sequence[Path],
    notes: Path | None,
) -> dict[str, Any]:
    """Add results to those that are known."""
    found = dict(known)
    if diagnosis:
        given = {path.stem: _json(path) for path in diagnosis}
        found["diagnosis"] = {**found.get("diagnosis", {}), **given}
    if stats is not None:
        found["corpus"] = _json(stats)
    if runs:
        given = {result["title"]: result for result in map(_run, runs)}
        kept = [r for r in found.get("runs", ()) if r["title"] not in given]
        found["runs"] = [*kept, *given.values()]
    if notes is not None:
        found["notes"] = [line for line in _text(notes).splitlines() if line.strip()]
    return found


def _run(folder: Path) -> dict[str, Any]:
    from waggle.cli.evaluate import RECIPE
    from waggle.evaluate import plan
    from waggle.evaluate.rows import read_rows
    from waggle.report.model_card import run_results

    recipe = plan.load(folder / RECIPE)
    return run_results(recipe, read_rows(folder), f"waggle eval {folder.name}.toml")


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(path))
    except ValueError:
        raise ConfigError(f"{path} is not JSON; give a file that waggle wrote") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds no results; give a file that waggle wrote")
    return value


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_JSON:
            raise ConfigError(f"{path} is too long; give a file that waggle wrote")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path} ({error}); give a file that waggle wrote") from None
