"""`waggle law pack | card`: from a trained law to one that ships, with its model card."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from waggle import shipped
from waggle.cli import console
from waggle.core.errors import ConfigError

if TYPE_CHECKING:
    from waggle.shipped import Manifest

MAX_JSON = 64 << 20


@dataclass(frozen=True)
class Results:
    """Measured results that a model card is made from.

    Args:
        diagnosis: JSON files of `waggle diagnose --out` or of training; the folder or file name
            is the column.
        stats: JSON file of `waggle corpus stats --json`.
        tokens: manifest.json of the token corpus of stage one.
        phases: phases.json of the training run.
        run: Run directories of `waggle eval`.
        notes: Text file with known failures in words, one a line.
    """

    diagnosis: tuple[Path, ...] = ()
    stats: Path | None = None
    tokens: Path | None = None
    phases: Path | None = None
    run: tuple[Path, ...] = ()
    notes: Path | None = None

    def beside(self, law: Path) -> Results:
        """Take what training left beside a law where nothing else was given."""
        diagnosis, run = law.parent / "diagnosis.json", law.resolve().parent.parent.parent
        return replace(
            self,
            diagnosis=self.diagnosis or ((diagnosis,) if diagnosis.is_file() else ()),
            tokens=self.tokens or _there(run / "tokens" / "manifest.json"),
            phases=self.phases or _there(run / "phases.json"),
        )


def _there(path: Path) -> Path | None:
    return path if path.is_file() else None


Given = Annotated[Results, Parameter(name="*")]
_NOTHING = Results()


def pack(
    source: Path, name: str, /, *, out: Path = shipped.ROOT, results: Given = _NOTHING
) -> None:
    """Make a trained law shippable: bfloat16 shards, digests, results, model card.

    The folder replaces one of the same name only when it is complete. Results that training left
    beside the law are taken; others can be given now or later with `waggle law card`.

    Args:
        source: The `law` folder of a training run.
        name: Name of the shipped law, such as nano.
        out: Folder that holds the shipped laws.
        results: Measured results.
    """
    from waggle.report.model_card import card
    from waggle.shipped.pack import pack as write
    from waggle.shipped.pack import rewrite

    if name not in shipped.NAMES:
        raise ConfigError(f"{name!r} is no law that ships; use {' or '.join(shipped.NAMES)}")
    found = _gather({}, results.beside(source))
    made = write(source, out / name, found)
    law = rewrite(made.folder, made.manifest, found, card(made.manifest, found))
    console.say(_told(law, made.folder))


def card(folder: Path, /, *, results: Given = _NOTHING) -> None:
    """Write the model card of a shippable law again, with further results.

    Results of the same name are replaced, the others stay; no number is typed by hand.

    Args:
        folder: The folder of the law, or the name of one that ships.
        results: Measured results.
    """
    from waggle.report.model_card import card as text
    from waggle.shipped.pack import rewrite

    place = shipped.folder(str(folder)) if str(folder) in shipped.NAMES else folder
    law = shipped.manifest(place)
    known = place / shipped.RESULTS
    found = _gather(_json(known) if known.exists() else {}, results)
    console.say(_told(rewrite(place, law, found, text(law, found)), place))


def _told(law: Manifest, folder: Path) -> str:
    return (
        f"{law.name}: {law.parameters:,} weights, {law.bytes:,} bytes in {len(law.files)} files, "
        f"order {law.order}, teacher {law.teacher}; card: {folder / shipped.CARD}"
    )


def _gather(known: dict[str, Any], given: Results) -> dict[str, Any]:
    """Add results to those that are known."""
    found = dict(known)
    if given.diagnosis:
        columns = {_column(path): _json(path) for path in given.diagnosis}
        columns = {**found.get("diagnosis", {}), **columns}
        found["diagnosis"] = {name: _scalars(column) for name, column in columns.items()}
    if given.stats is not None:
        found["corpus"] = _json(given.stats)
    if given.tokens is not None:
        found["tokens"] = _rows(given.tokens)
    if given.phases is not None:
        found["phases"] = _json(given.phases)
    if given.run:
        runs = {result["title"]: result for result in map(_run, given.run)}
        kept = [r for r in found.get("runs", ()) if r["title"] not in runs]
        found["runs"] = [*kept, *runs.values()]
    if given.notes is not None:
        found["notes"] = [line for line in _text(given.notes).splitlines() if line.strip()]
    return found


def _scalars(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Leave out values per view and their ids: a card has no use for them, and they are long."""
    return {name: v for name, v in diagnosis.items() if not isinstance(v, dict | list)}


def _column(path: Path) -> str:
    """Training calls every diagnosis the same: the arm is the folder's name."""
    return path.resolve().parent.name if path.name == "diagnosis.json" else path.stem


def _rows(path: Path) -> dict[str, int]:
    """Return how many sequences each split of a token corpus has."""
    try:
        shards = _json(path)["shards"]
        return {split: sum(int(s["rows"]) for s in some) for split, some in shards.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(f"{path} is no manifest of a token corpus; give its own") from None


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
