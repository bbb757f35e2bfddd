"""`waggle law ranks | pack | card`: from a trained law to one that ships, with its model card.

The model card is written from files that training, diagnosis and evaluation left; they are checked
and bounded in size, and no number is typed by hand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from json import dumps, loads
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from waggle import shipped
from waggle.cli import console
from waggle.cli.options import Flag, Paths
from waggle.core.errors import ConfigError
from waggle.laws.origin import origin
from waggle.shipped import SOURCE

if TYPE_CHECKING:
    from waggle.shipped import Manifest

MAX_RANK = 4096
MAX_JSON = 64 << 20
"""Bytes of a file of results."""


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

        Its diagnosis measured the adapter that training wrote: one of another rank has none.
        """
        diagnosis, run = law.parent / "diagnosis.json", run_of(law)
        tokens = run / "tokens" / origin(str(law)).order / "manifest.json"
        return replace(
            self,
            diagnosis=self.diagnosis or ((diagnosis,) if same and diagnosis.is_file() else ()),
            tokens=self.tokens or _existing(tokens),
            phases=self.phases or _existing(run / "phases.json"),
        )


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

    For every rank: bytes, the share of the squared norm of the weight change that is kept, the loss
    of it by rounding to bfloat16, and the held-out loss per token; for factors fitted to the
    matrices (plain) and to their outputs on training inputs (fitted). Pack the smallest rank that
    suffices with `waggle law pack --rank`. Example:

    `waggle law ranks runs/smollm2/seed-0/scd/law --ranks 32,64`

    Args:
        source: The `law` folder of a training run.
        corpus: Folder of its corpus; by default RUN/corpus.
        ranks: Ranks to measure, comma-separated.
        records: Validation records, and as many training records for the fit.
        device: auto, cpu or cuda.
        out: Also write the rows as JSON here.
        json: Print one JSON object instead of text.
    """
    from waggle.scd.ship.ranks import Row, measure

    place = corpus or run_of(source) / "corpus"
    sizes = ranks_of(ranks)
    found = []
    for row in measure(source, place, sizes, records, device):
        found.append(row._asdict())
        console.note(f"{row.factors} {row.rank or ''}: loss {row.nll:.5f}")
    if out is not None:
        written = {"source": str(source), "records": records, "rows": found}
        out.write_text(dumps(written, indent=1) + "\n", encoding="utf-8")
    if json:
        console.dump({"rows": found})
        return
    table = [
        (r["factors"], r["rank"] or "", f"{r['bytes'] / 1e6:.1f}", f"{r['kept']:.4f}",
         f"{r['rounding']:.1e}", f"{r['nll']:.5f}") for r in found
    ]  # fmt: skip
    console.table(f"Ranks of {source}", Row._fields, table, right=1)


def ranks_of(text: str) -> list[int]:
    """Return the ranks of a comma-separated list."""
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

    The folder replaces one of the same name only when it is complete. It takes the results that
    training left beside the law; give others now, or later with `waggle law card`. Example:

    `waggle law pack runs/nano/seed-0/scd/law nano --out dist`

    Args:
        source: The `law` folder of a training run.
        name: Name of the shipped law, such as nano.
        out: Make the folder NAME in this one; NAME may then be any. By default it replaces
            the law of that name.
        rank: Rank of the adapter (see `waggle law ranks`); by default the one that was exported.
        corpus: With --rank: fit the factors to training inputs of this corpus; by default
            RUN/corpus if it exists.
        plain: With --rank: fit the factors to the matrices alone.
        records: With --rank: training records for the fit.
        device: With --rank: auto, cpu or cuda.
        results: Measured results.
    """
    from waggle.shipped.pack import pack as write

    if name not in shipped.names() and out is None:
        known = " or ".join(shipped.names())
        raise ConfigError(f"{name!r} is no law that ships; use {known}, or give --out")
    if Path(name).name != name or not 1 <= (rank or 1) <= MAX_RANK:
        raise ConfigError(f"give a plain name, and a --rank from 1 to {MAX_RANK}")
    found = gather({}, results.beside(source, same=rank is None))
    place = shipped.folder(name) if out is None else out / name
    if rank is None:
        from waggle.laws.shipped import of_folder

        made = write(source, place, found)
        if not made.rounded:
            found[SOURCE] = of_folder(source).digest
        _finish(made.folder, made.manifest, found)
        return
    from waggle.scd.ship.ranks import refactor

    fit = None if plain else corpus or _existing(run_of(source) / "corpus")
    with TemporaryDirectory() as scratch:
        again = refactor(source, Path(scratch) / "law", rank, fit, records, device)
        made = write(again, place, found)
        _finish(made.folder, made.manifest, found)
    if not results.diagnosis:
        console.note(f"not diagnosed at this rank; waggle diagnose {place} --out FILE, then "
                     f"waggle law card {place} --diagnosis FILE")  # fmt: skip


def _finish(folder: Path, law: Manifest, found: dict[str, Any]) -> None:
    """Write the card; print what was packed, and which results measured another law."""
    from waggle.report.model_card import card, other_diagnoses, other_episodes
    from waggle.shipped.pack import rewrite

    made = rewrite(folder, law, found, card(law, found))
    console.say(
        f"{made.name}: {made.parameters:,} weights, {made.bytes:,} bytes in {len(made.files)} "
        f"files, order {made.order}, teacher {made.teacher}; card: {folder / shipped.CARD}"
    )
    for line in other_diagnoses(made, found):
        console.note(f"{line}; waggle diagnose {folder} --out FILE measures this one")
    for run in found.get("runs", ()):
        for line in other_episodes(made, run):
            console.note(f"{run['title']}: {line}")


def card(folder: Path, /, *, results: Given = _NOTHING) -> None:
    """Write the model card of a shippable law again, with further results.

    Results of the same name are replaced, the others stay. The card and the output name results
    that are not known to have measured the weights that ship. Example:

    `waggle law card nano --run runs/primary --diagnosis runs/diagnosis.json`

    Args:
        folder: The folder of the law, or the name of one that ships.
        results: Measured results.
    """
    place = shipped.folder(str(folder)) if str(folder) in shipped.names() else folder
    if place == folder and not (place / shipped.LAW).is_file():
        names = " or ".join(shipped.names())
        raise ConfigError(f"{folder} holds no packed law; name the folder of one, or {names}")
    law = shipped.manifest(place)
    known = place / shipped.RESULTS
    _finish(place, law, gather(read_json(known) if known.exists() else {}, results))


def run_of(law: Path) -> Path:
    """Return the folder of the run that a law was trained in: RUN/seed-S/ARM/law."""
    return law.resolve().parent.parent.parent


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


def gather(known: dict[str, Any], given: Results) -> dict[str, Any]:
    """Add results to those that are known."""
    found = dict(known)
    if given.diagnosis:
        columns = {_column(path): read_json(path) for path in given.diagnosis}
        columns = {name: _scalars(column) for name, column in columns.items()}
        found["diagnosis"] = {**found.get("diagnosis", {}), **columns}
    if "diagnosis" in found:
        found["diagnosis"] = {name: _weighed(each) for name, each in found["diagnosis"].items()}
    if given.stats is not None:
        found["corpus"] = read_json(given.stats)
    if given.tokens is not None:
        found["tokens"] = _rows(given.tokens)
    if given.phases is not None:
        found["phases"] = read_json(given.phases)
    if given.run:
        runs = {result["title"]: result for result in map(_run, given.run)}
        kept = [r for r in found.get("runs", ()) if r["title"] not in runs]
        found["runs"] = [*kept, *runs.values()]
    if given.ranks is not None:
        found["ranks"] = read_json(given.ranks).get("rows", [])
    if given.notes is not None:
        found["notes"] = [line for line in _text(given.notes).splitlines() if line.strip()]
    return found


def _scalars(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Leave out values per view and their ids, which no card shows."""
    return {name: v for name, v in diagnosis.items() if not isinstance(v, dict | list)}


def _weighed(diagnosis: dict[str, Any]) -> dict[str, Any]:
    """Return a diagnosis with the digest of the weights it measured, empty if it has none."""
    said = diagnosis.get("weights")
    known = isinstance(said, str) and re.fullmatch("[0-9a-f]{1,64}", said)
    return {**diagnosis, "weights": said if known else ""}


def _column(path: Path) -> str:
    """Return the name of a diagnosis: of the file, or of the arm's folder for training's own."""
    return path.resolve().parent.name if path.name == "diagnosis.json" else path.stem


def _rows(path: Path) -> dict[str, int]:
    """Return how many sequences each split of a token corpus has."""
    try:
        shards = read_json(path)["shards"]
        return {split: sum(int(s["rows"]) for s in some) for split, some in shards.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ConfigError(f"{path} is no manifest of a token corpus; give its own") from None


def _run(folder: Path) -> dict[str, Any]:
    from waggle.cli.measure.evaluate import RECIPE
    from waggle.evaluate import plan
    from waggle.evaluate.rows import read_rows
    from waggle.report.model_card import run_results

    recipe = plan.load(folder / RECIPE)
    return run_results(recipe, read_rows(folder), f"waggle eval {folder.name}.toml")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ConfigError: if the file holds none.
    """
    try:
        value = loads(_text(path))
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
