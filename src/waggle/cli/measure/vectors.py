"""`waggle check vectors` and `waggle check graphs`: compare with what others recorded."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from waggle.cli import console
from waggle.cli.flags import Flag
from waggle.core.errors import ConfigError, suggest

if TYPE_CHECKING:
    from waggle.substrates.vectors import VectorReport

_CHECKS = {
    "agentsnet": "waggle.substrates.agentsnet.vectors",
    "silo": "waggle.substrates.silo.vectors",
    "swarmbench": "waggle.substrates.swarmbench.sim.vectors",
}
"""Substrate -> the module whose `check_vectors` compares recorded files."""


def vectors(
    substrate: str,
    folder: Path,
    /,
    *,
    graphs: Path | None = None,
    json: Flag = False,
) -> int:
    """Replay every recorded vector of a folder and compare.

    Prints how many passed and failed and the first difference. The exit code is 0 only if at least
    one vector was found and none failed.

    Args:
        substrate: swarmbench, silo or agentsnet.
        folder: Folder with the recorded vectors.
        graphs: For agentsnet: where graph ids resolve (the folder `graphs` beside FOLDER if unset).
        json: Print one JSON object instead of text.
    """
    if substrate not in _CHECKS:
        known = ", ".join(_CHECKS)
        hint = suggest(substrate, list(_CHECKS))
        raise ConfigError(f"no vectors are known for {substrate!r}; use one of {known}{hint}")
    if graphs is not None and substrate != "agentsnet":
        raise ConfigError("--graphs belongs to agentsnet; leave it out here")
    check = _function(_CHECKS[substrate], "check_vectors")
    where = _folder(folder)
    report = check(where, _folder(graphs)) if graphs is not None else check(where)
    return _tell(f"{substrate} vectors", where, report, json)


def graphs(folder: Path, /, *, json: Flag = False) -> int:
    """Check the AgentsNet graph files of a folder.

    Each graph must be connected and simple, with diameter, maximum degree and names as recorded.
    The exit code is 0 only if at least one graph was found and none failed.

    Args:
        folder: Folder with graph JSON files.
        json: Print one JSON object instead of text.
    """
    check = _function(_CHECKS["agentsnet"], "check_graphs")
    where = _folder(folder)
    return _tell("graphs", where, check(where), json)


def _function(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise ConfigError(f"{str(path)!r} is not a folder; give the folder that holds the files")
    return path


def _tell(what: str, folder: Path, report: VectorReport, json: bool) -> int:
    ok = report.ok
    counts = {"passed": report.passed, "failed": report.failed, "skipped": report.skipped}
    if json:
        difference = {"first_difference": report.first_difference}
        console.dump({"check": what, "folder": folder, "ok": ok, **counts, **difference})
        return 0 if ok else 1
    console.say(f"{what}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    if report.passed + report.failed == 0:
        console.say(f"nothing to check was found in {folder}")
    if report.first_difference:
        console.say(f"first difference: {report.first_difference}")
    return 0 if ok else 1
