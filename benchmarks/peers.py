"""Do all fits and episodes of the peers take less than forty minutes on two cores?

    python -m benchmarks.peers

Fits the learned organisers with recipes/fit/peers.toml and plays all six, with the deterministic
solver, in every table that has them. Agent Distillation needs a GPU and is left out. Figures are
processor time, so a busy machine does not change them; the last line halves the sum for two cores.
Fits must end in the state stored in results/fit, and rows must equal those in results. `--seeds`
limits the seeds of every setting, and their time is scaled up to all seeds. Measured steps are
stored, so the same command resumes after an interruption.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from waggle.baselines.peers import METHODS, training
from waggle.cli import console
from waggle.evaluate import plan
from waggle.evaluate.rows import Row, read_rows

ROOT = Path(__file__).resolve().parents[1]
WAGGLE = (sys.executable, "-m", "waggle")
ORGANISERS = [name for name in METHODS if name != "agentdistill"]


class Step(NamedTuple):
    """One fit, or the episodes of one method in one table."""

    kind: str
    method: str

    def home(self, out: Path) -> Path:
        """Return the path that its parameters or rows are written to."""
        name = f"{self.kind}-{self.method}"
        return out / (f"{name}.json" if self.kind == "fit" else name)

    def command(self, out: Path, seeds: int | None) -> Sequence[str]:
        """Return the command that runs the step."""
        if self.kind == "fit":
            recipe = str(ROOT / "recipes/fit/peers.toml")
            return [*WAGGLE, "fit", self.method, recipe, "--out", str(self.home(out))]
        recipe = str(ROOT / f"recipes/tables/{self.kind}.toml")
        some = [] if seeds is None else ["--seeds", str(seeds)]
        own = ["--methods", self.method, "--out", str(self.home(out)), "--workers", "1", *some]
        return [*WAGGLE, "eval", recipe, *own]


def steps() -> Iterator[Step]:
    """Yield the fits, then the episodes of every table that has peers."""
    for method in ORGANISERS:
        if METHODS[method].learner:
            yield Step("fit", method)
    tables = sorted(ROOT.glob("recipes/tables/*.toml"))
    for path in (table for table in tables if table.stem != "methods"):
        used = {name for block in plan.load(path).blocks for name in block.methods}
        for method in ORGANISERS:
            if method in used:
                yield Step(path.stem, method)


def measure(step: Step, out: Path, seeds: int | None) -> dict[str, Any]:
    """Run a step from scratch; return its processor minutes for all seeds, and its outcome."""
    own = step.home(out)
    if own.is_dir():
        shutil.rmtree(own)
    own.unlink(missing_ok=True)
    child = subprocess.Popen(step.command(out, seeds), stdout=subprocess.DEVNULL, cwd=ROOT)
    _, status, used = os.wait4(child.pid, 0)  # the time of the child and of its workers only
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{step}: exit status {child.returncode}")
    spent = used.ru_utime + used.ru_stime
    scale, same = 1.0, "not compared"
    if step.kind == "fit":
        shipped = ROOT / f"results/fit/{step.method}.json"
        learner = training.learner_of(step.method)
        same = _word(training.state_of(shipped, learner) == training.state_of(own, learner))
    else:
        recipe = plan.load(ROOT / f"recipes/tables/{step.kind}.toml")
        played = _of(own, step.method)
        planned = sum(c.case.n for c in plan.cells(recipe) if c.method == step.method)
        scale = planned / sum(row.n for row in played.values())
        kept = ROOT / "results" / step.kind
        known = _of(kept, step.method) if kept.is_dir() else {}
        if played.keys() <= known.keys():
            same = _word(all(known[key].scores == row.scores for key, row in played.items()))
    return {"step": list(step), "minutes": spent * scale / 60, "scale": scale, "same": same}


def _of(folder: Path, method: str) -> dict[plan.Key, Row]:
    return {row.key: row for row in read_rows(folder) if row.method == method}


def _word(same: bool) -> str:
    return "the same" if same else "DIFFERS"


def measured(log: Path) -> dict[Step, dict[str, Any]]:
    """Return the stored results of the steps that have been measured."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return {Step(*one["step"]): one for one in map(json.loads, lines)}


def main() -> None:
    """Measure the steps that have no stored result, and print all results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/peers"), help="run folders, results")
    parser.add_argument("--seeds", type=int, help="play so many seeds of every setting")
    parser.add_argument("--jobs", type=int, default=1, help="steps side by side")
    parser.add_argument("--only", nargs="*", default=[], help="tables or methods, or fit; all")
    asked = parser.parse_args()
    out = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    log = out / f"steps-{asked.seeds or 'all'}.jsonl"
    known = measured(log)
    chosen = [s for s in steps() if not asked.only or set(asked.only) & {s.kind, s.method}]
    with ThreadPoolExecutor(asked.jobs) as pool:
        missing = [step for step in chosen if step not in known]
        work = [pool.submit(measure, step, out, asked.seeds) for step in missing]
        for done in as_completed(work):
            known[Step(*done.result()["step"])] = done.result()
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(done.result()) + "\n")
    rows = [
        (
            s.kind,
            s.method,
            f"{known[s]['minutes']:.1f}",
            f"{known[s]['scale']:.2f}",
            known[s]["same"],
        )
        for s in chosen
    ]
    headings = ("what", "method", "processor minutes", "scaled by", "outcome")
    console.table("Peers with the deterministic solver", headings, rows)
    total = sum(known[s]["minutes"] for s in chosen)
    console.say(f"on two cores: {total / 2:.1f} minutes")


if __name__ == "__main__":
    main()
