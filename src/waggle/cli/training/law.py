"""`waggle law ranks | pack | card`: from a trained law to one that ships, with its model card."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from waggle import shipped
from waggle.cli import console
from waggle.cli.options import AsJson
from waggle.core.errors import ConfigError
from waggle.evaluate.results import read_result
from waggle.report.law_results import Results, gather, left_by_training, run_of
from waggle.report.model_card import card as card_text
from waggle.report.model_card import other_diagnoses, other_episodes, ranks_table
from waggle.report.tables import markdown
from waggle.shipped import SOURCE

if TYPE_CHECKING:
    from waggle.shipped import Manifest

MAX_RANK = 4096
Given = Annotated[Results, Parameter(name="*", show_default=False)]
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
    json: AsJson = False,
) -> None:
    """Measure the adapter rank that a trained law needs.

    Reports for every rank: bytes, the share of the squared norm of the weight change that is kept,
    its loss by rounding to bfloat16, and the held-out loss per token; for factors fitted to the
    matrices (plain) and to their outputs on training inputs (fitted). Pack the smallest sufficient
    rank with `waggle law pack --rank`. Example:

    `waggle law ranks runs/smollm2/seed-0/scd/law --ranks 32,64`

    Args:
        source: `law` folder of a training run.
        corpus: Folder of its corpus. Default: RUN/corpus.
        ranks: Ranks to measure, comma-separated.
        records: Number of validation records, and of training records for the fit.
        device: Device: auto, cpu or cuda.
        out: Also write the rows to this JSON file.
    """
    from waggle.scd.ship.low_rank import measure

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
    console.say(markdown(ranks_table(found)))


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
    device: str = "auto",
    results: Given = _NOTHING,
) -> None:
    """Pack a trained law for distribution: bfloat16 shards, digests, results, model card.

    A folder of the same name is replaced only when the new one is complete. Includes the results
    that training saved beside the law; add others now, or later with `waggle law card`. Example:

    `waggle law pack runs/nano/seed-0/scd/law nano --out dist`

    Args:
        source: `law` folder of a training run.
        name: Name of the packed law, such as nano.
        out: Create the folder NAME in this folder; NAME can then be any name. Default: replace the
            shipped law NAME.
        rank: Rank of the adapter (see `waggle law ranks`). Default: the exported rank.
        corpus: With --rank: fit the factors to training inputs of this corpus. Default: RUN/corpus
            if it exists.
        device: With --rank: device, auto, cpu or cuda.
        results: Measured results.
    """
    from waggle.shipped.pack import pack as write

    if name not in shipped.names() and out is None:
        known = " or ".join(shipped.names())
        raise ConfigError(f"{name!r} is no law that ships; use {known}, or give --out")
    if Path(name).name != name or not 1 <= (rank or 1) <= MAX_RANK:
        raise ConfigError(f"give a plain name, and a --rank from 1 to {MAX_RANK}")
    same = rank is None and not results.diagnosis
    found = gather(left_by_training(source, diagnosed=same), results)
    place = shipped.folder(name) if out is None else out / name
    if rank is None:
        from waggle.laws.shipped import of_folder

        made = write(source, place, found, name=name)
        if not made.rounded:
            found[SOURCE] = of_folder(source).digest
        _finish(made.folder, made.manifest, found)
        return
    from waggle.scd.ship.low_rank import refactor

    there = run_of(source) / "corpus"
    fit = corpus or (there if there.is_dir() else None)
    with TemporaryDirectory() as scratch:
        again = refactor(source, Path(scratch) / "law", rank, fit, device=device)
        made = write(again, place, found, name=name)
        _finish(made.folder, made.manifest, found)
    if not results.diagnosis:
        console.note(f"not diagnosed at this rank; waggle diagnose {place} --out FILE, then "
                     f"waggle law card {place} --diagnosis FILE")  # fmt: skip


def _finish(folder: Path, law: Manifest, found: dict[str, Any]) -> None:
    """Write the card; print what was packed, and which results measured another law."""
    from waggle.shipped.pack import rewrite

    made = rewrite(folder, law, found, card_text(law, found))
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
    """Rewrite the model card of a packed law, with further results.

    Results of the same name are replaced; the others stay. The card and the output list results
    that are not known to have been measured with the shipped weights. Example:

    `waggle law card nano --run runs/primary --diagnosis runs/diagnosis.json`

    Args:
        folder: Folder of a packed law, or name of a shipped law.
        results: Measured results.
    """
    place = shipped.folder(str(folder)) if str(folder) in shipped.names() else folder
    if place == folder and not (place / shipped.LAW).is_file():
        names = " or ".join(shipped.names())
        raise ConfigError(f"{folder} holds no packed law; name the folder of one, or {names}")
    law = shipped.manifest(place)
    known = place / shipped.RESULTS
    _finish(place, law, gather(read_result(known, "results") if known.exists() else {}, results))
