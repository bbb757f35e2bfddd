"""`waggle law ranks | pack | card`: from a trained law to one that ships, with its model card."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from waggle import shipped
from waggle.cli import console
from waggle.cli.flags import Flag, Paths
from waggle.core.errors import ConfigError
from waggle.laws.origin import origin

if TYPE_CHECKING:
    from waggle.shipped import Manifest
    from waggle.shipped.pack import Packed

MAX_JSON = 64 << 20
MAX_RANK = 4096


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
        ranks: JSON file of `waggle law ranks --out`.
        notes: Text file with known failures in words, one a line.
    """

    diagnosis: Paths = ()
    stats: Path | None = None
    tokens: Path | None = None
    phases: Path | None = None
    run: Paths = ()
    ranks: Path | None = None
    notes: Path | None = None

    def beside(self, law: Path, *, same: bool) -> Results:
        """Take what training left beside a law where nothing else was given.

        The diagnosis is of the very adapter that training wrote, so one of another rank has none.
        """
        diagnosis, run = law.parent / "diagnosis.json", _run_of(law)
        tokens = run / "tokens" / origin(str(law)).order / "manifest.json"
        return replace(
            self,
            diagnosis=self.diagnosis or ((diagnosis,) if same and diagnosis.is_file() else ()),
            tokens=self.tokens or _there(tokens),
            phases=self.phases or _there(run / "phases.json"),
        )


def _run_of(law: Path) -> Path:
    """Return the folder of the run that a law was trained in: RUN/seed-S/ARM/law."""
    return law.resolve().parent.parent.parent


def _there(path: Path) -> Path | None:
    return path if path.is_file() else None


Given = Annotated[Results, Parameter(name="*")]
_NOTHING = Results()


def ranks(
    source: Path,
    /,
    *,
    corpus: Path | None = None,
    ranks: str = "16,32,64,128",
    records: int = 200,
    device: str = "auto",
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Measure how large the adapter of a trained law has to be.

    For every rank: bytes, the share of the squared norm of what training changed that is kept, what
    rounding to bfloat16 takes from it, and the held-out loss per token; for factors that are best
    in the matrices (plain) and in what the matrices make of training inputs (fitted). Pack the one
    that is large enough with `waggle law pack --rank`.

    Args:
        source: The `law` folder of a training run.
        corpus: Folder of its corpus; by default RUN/corpus.
        ranks: The ranks.
        records: Validation records, and as many training records for the fit.
        device: auto, cpu or cuda.
        out: Also write the rows as JSON here.
        json: Print one JSON object instead of text.
    """
    from json import dumps

    from waggle.scd.ranks import Row, measure

    place = corpus or _run_of(source) / "corpus"
    sizes = _sizes(ranks)
    found = []
    for row in measure(source, place, sizes, records, device):
        found.append(row._asdict())
        console.note(f"{row.factors} {row.rank or ''}: loss {row.nll:.5f}")
    if out is not None:
        said = {"source": str(source), "records": records, "rows": found}
        out.write_text(dumps(said, indent=1) + "\n", encoding="utf-8")
    if json:
        console.dump({"rows": found})
        return
    table = [
        (r["factors"], r["rank"] or "", f"{r['bytes'] / 1e6:.1f}", f"{r['kept']:.4f}",
         f"{r['rounding']:.1e}", f"{r['nll']:.5f}") for r in found
    ]  # fmt: skip
    console.table(f"Ranks of {source}", Row._fields, table, right=1)


def _sizes(text: str) -> list[int]:
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        found = []
    if not found or not 1 <= found[0] <= found[-1] <= MAX_RANK:
        raise ConfigError(f"--ranks takes ranks from 1 to {MAX_RANK} such as 16,32, not {text!r}")
    return found


def pack(
    source: Path,
    name: str,
    /,
    *,
    out: Path | None = None,
    rank: int | None = None,
    corpus: Path | None = None,
    plain: Flag = False,
    records: int = 200,
    device: str = "auto",
    results: Given = _NOTHING,
) -> None:
    """Make a trained law shippable: bfloat16 shards, digests, results, model card.

    The folder replaces one of the same name only when it is complete. Results that training left
    beside the law are taken; others can be given now or later with `waggle law card`.

    Args:
        source: The `law` folder of a training run.
        name: Name of the shipped law, such as nano.
        out: Folder to make it in, under any name; by default that of the laws that ship.
        rank: Rank of the adapter (see `waggle law ranks`); by default the one that was exported.
        corpus: With --rank: corpus whose training inputs say what counts; by default RUN/corpus
            where that is there.
        plain: With --rank: all inputs count alike.
        records: With --rank: so many training records are read for it.
        device: With --rank: auto, cpu or cuda.
        results: Measured results.
    """
    from waggle.shipped.pack import pack as write

    if name not in shipped.NAMES and out is None:
        known = " or ".join(shipped.NAMES)
        raise ConfigError(f"{name!r} is no law that ships; use {known}, or give --out")
    if Path(name).name != name or not 1 <= (rank or 1) <= MAX_RANK:
        raise ConfigError(f"give a plain name, and a --rank from 1 to {MAX_RANK}")
    found = _gather({}, results.beside(source, same=rank is None))
    place = (out or shipped.ROOT) / name
    if rank is None:
        _finish(write(source, place, found), found)
        return
    from waggle.scd.ranks import refactor

    fit = None if plain else corpus or _there_folder(_run_of(source) / "corpus")
    with TemporaryDirectory() as scratch:
        again = refactor(source, Path(scratch) / "law", rank, fit, records, device)
        _finish(write(again, place, found), found)
    if not results.diagnosis:
        console.note(f"not diagnosed at this rank; waggle diagnose {place} --out FILE, then "
                     f"waggle law card {place} --diagnosis FILE")  # fmt: skip


def _finish(made: Packed, found: dict[str, Any]) -> None:
    """Write the card and say what was packed."""
    from waggle.report.model_card import card
    from waggle.shipped.pack import rewrite

    law = rewrite(made.folder, made.manifest, found, card(made.manifest, found))
    console.say(_told(law, made.folder))


def _there_folder(path: Path) -> Path | None:
    return path if path.is_dir() else None


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
    if place == folder and not (place / shipped.LAW).is_file():
        names = " or ".join(shipped.NAMES)
        raise ConfigError(f"{folder} holds no packed law; name the folder of one, or {names}")
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
    if given.ranks is not None:
        found["ranks"] = _json(given.ranks).get("rows", [])
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
