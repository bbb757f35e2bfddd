"""The four-arm factorial: all arms of several paired seeds from one warm start, several at once.

Arms of one seed share warm start, batches, orbit elements and dropout; they differ in the weights
of the losses alone. Batches are encoded once, before the arms start (`prepare`). Small backbones
leave most of a GPU idle, so arms run side by side in processes, each of which builds its backbone
once and trains one arm after another with it. Each arm is diagnosed where it was trained, beside
the training of others; results are kept beside it, and a result that is there is not made again.
Once it is there, law and selected weights stay, the checkpoints to resume from go.
Invariant: an arm that fails, or whose process dies, costs no other arm.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from waggle.core.errors import WaggleError
from waggle.core.seeds import Split
from waggle.scd.config import ARMS, Arm, Recipe
from waggle.scd.team import Team

if TYPE_CHECKING:
    from waggle.scd.findings import Findings
    from waggle.scd.model import Student
    from waggle.scd.stages import Stages

RESULT = "diagnosis.json"
"""The numbers of an arm, beside its law."""
WHOLE = "findings.json"
"""The same with its units."""
ASKED = "asked for"
"""How much a result measured."""
TRIES = 2
"""How often an arm is begun whose process dies."""
Lost = Callable[["Cell", str], None]
"""Called with an arm that could not be trained or measured, and why."""
TRANSITIONS = 2_376
"""Transitions that probes are fitted and evaluated on."""


class Cell(NamedTuple):
    """One arm of one seed."""

    recipe: Recipe
    corpus: Path
    out: Path
    start: int
    """Seed whose warm start all arms share."""
    seed: int
    arm: Arm
    views: int
    native: int
    transitions: int

    @property
    def name(self) -> str:
        """What a person calls it."""
        return f"seed {self.seed} {self.arm}"

    @property
    def result(self) -> Path:
        """Where its result is kept."""
        return self.out / f"seed-{self.seed}" / self.arm / WHOLE

    @property
    def warm(self) -> Path:
        """The law that all arms start from."""
        return self.out / f"seed-{self.start}" / "warm-start" / "law"

    def asked(self) -> dict[str, int]:
        """Say how much is measured; a result that measured something else does not count."""
        return {"views": self.views, "native": self.native, "transitions": self.transitions}

    def kept(self) -> dict[str, Any] | None:
        """Return its result if it is there."""
        try:
            found: dict[str, Any] = json.loads(self.result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if found.get(ASKED) == self.asked() else None

    def stages(self, student: Student | None = None) -> Stages:
        """Return the stages of this cell's seed."""
        from waggle.scd.stages import Stages

        return Stages(
            self.recipe, self.corpus, self.out, self.seed, start=self.start, student=student
        )

    def findings(self, workers: int = 1) -> Findings:
        """Return what is measured of this cell; views and encoded records are shared by all."""
        from waggle.corpus.store import Store
        from waggle.scd.findings import Findings

        return Findings(
            Store(self.corpus), views=self.views, native=self.native, seed=0,
            evaluation_seed=Split.EVALUATION.value.start, kept=self.out / "prepared",
            workers=workers,
        )  # fmt: skip


def prepare(planned: Sequence[Cell], workers: int = 1) -> None:
    """Encode what all cells read, once: batches of every seed, held-out views, transitions."""
    from waggle.scd.model import tokenizer_of

    first = planned[0]
    findings = first.findings(workers)
    with findings.prepared(first.recipe, tokenizer_of(first.recipe)) as prepared:
        for seed in dict.fromkeys(cell.seed for cell in planned):
            first._replace(seed=seed).stages().lessons(prepared)
        prepared.decisions("test", first.views)
        for split in ("probe", "test", "validation"):
            prepared.transitions(split, first.transitions)
    if first.native:
        findings.natives()


_STUDENTS: dict[str, Student] = {}
"""The backbone of this process, by recipe."""


def _student(recipe: Recipe) -> Student:
    from waggle.scd.model import Student

    name = recipe.model_dump_json()
    if name not in _STUDENTS:
        _STUDENTS.clear()
        _STUDENTS[name] = Student(recipe, 0)
    return _STUDENTS[name]


def run_cell(cell: Cell) -> dict[str, Any]:
    """Train one arm and measure decisions, deployed structure, fresh probe and training heads."""
    try:
        return _run_cell(cell)
    except BaseException:
        _STUDENTS.clear()  # whatever state it is in: the next arm builds its own
        raise


def _run_cell(cell: Cell) -> dict[str, Any]:
    from waggle.scd import checkpoint
    from waggle.scd.diagnose import law_of
    from waggle.scd.findings import diagnose_folder, diagnose_law, joined, numbers, told, uncompiled
    from waggle.scd.model import collect

    if not cell.recipe.run.compile_arms:
        cell = cell._replace(recipe=uncompiled(cell.recipe))
    if (kept := cell.kept()) is not None:
        return kept
    student = _student(cell.recipe)
    law = cell.stages(student).arm(cell.arm)
    best = law.parent / "best" / "trainable.safetensors"
    checkpoint.restore(student.trainable(), checkpoint.read_tensors(best), best)
    collect()  # what was held would count against the engine that measures, and against others
    findings = cell.findings()
    named: dict[str, Any] = {"arm": cell.arm, "seed": cell.seed, ASKED: cell.asked()}
    named["warm start"] = f"of seed {cell.start}: {told(cell.warm)}"
    found = diagnose_folder(findings, law, cell.transitions, student)
    collect()
    result = joined(named | diagnose_law(findings, law_of(law), cell.recipe.order), found)
    collect()
    (law.parent / RESULT).write_text(json.dumps(numbers(result), indent=1), encoding="utf-8")
    _write(cell.result, result)
    checkpoint.discard(law.parent, checkpoint.FOLDER)
    return result


def _write(path: Path, result: dict[str, Any]) -> None:
    """Write a result under its name once it is whole."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_text(json.dumps(result), encoding="utf-8")
    os.replace(partial, path)


@contextmanager
def hired(cells: Sequence[Cell], jobs: int) -> Iterator[Team | None]:
    """Start the processes for cells ahead of their warm start, as many as will have work."""
    left = sum(cell.kept() is None for cell in cells)
    if jobs <= 1 or not left:
        yield None
        return
    with Team(min(jobs, left)) as team:
        yield team


def _raise(cell: Cell, reason: str) -> None:
    raise WaggleError(f"{cell.name}: {reason}")


def run_all(
    cells: Sequence[Cell], jobs: int, lost: Lost = _raise, team: Team | None = None
) -> Iterator[dict[str, Any]]:
    """Run cells in order, so many at once; yield results as they come.

    Args:
        cells: the arms; those whose results are kept come first.
        jobs: processes; one runs here.
        lost: told of an arm that fails, or whose process dies twice; the others go on.
        team: processes that were started ahead, instead of so many now.
    """
    from waggle.scd import checkpoint

    todo = []
    for cell in cells:
        if (kept := cell.kept()) is None:
            todo.append(cell)
        else:
            checkpoint.discard(cell.result.parent, checkpoint.FOLDER)
            yield kept
    if team is not None:
        yield from _beside(todo, team, lost)
        return
    with hired(todo, jobs) as made:
        yield from _here(todo, lost) if made is None else _beside(todo, made, lost)


def _here(cells: Sequence[Cell], lost: Lost) -> Iterator[dict[str, Any]]:
    for cell in cells:
        try:
            yield run_cell(cell)
        except WaggleError as error:
            lost(cell, str(error))


def _beside(cells: Sequence[Cell], team: Team, lost: Lost) -> Iterator[dict[str, Any]]:
    """Run cells in processes, each in the next that is idle."""
    todo, idle = deque((cell, 1) for cell in cells), list(team.pools)
    running: dict[Future[dict[str, Any]], tuple[ProcessPoolExecutor, Cell, int]] = {}
    while todo or running:
        while todo and idle:
            pool, (cell, attempt) = idle.pop(), todo.popleft()
            running[_submitted(pool, cell)] = (pool, cell, attempt)
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            pool, cell, attempt = running.pop(done)
            try:
                yield done.result()
            except BrokenProcessPool:
                pool = team.fresh()
                if attempt < TRIES:
                    todo.append((cell, attempt + 1))
                else:
                    lost(cell, f"its process died {TRIES} times; try again with fewer --jobs")
            except Exception as error:  # whatever it is, the other arms go on
                lost(cell, _reason(error))
            idle.append(pool)


def _submitted(pool: ProcessPoolExecutor, cell: Cell) -> Future[dict[str, Any]]:
    """Give a cell to a process; one that is dead already says so like one that dies later."""
    try:
        return pool.submit(run_cell, cell)
    except BrokenProcessPool as error:
        dead: Future[dict[str, Any]] = Future()
        dead.set_exception(error)
        return dead


def _reason(error: Exception) -> str:
    """Say in one line why an arm failed."""
    said = str(error) if isinstance(error, WaggleError) else f"{type(error).__name__}: {error}"
    return (said.splitlines() or [""])[0][:300]


def cells(
    recipe: Recipe, corpus: Path, out: Path, seeds: Sequence[int], *, views: int, native: int,
    transitions: int = TRANSITIONS,
) -> list[Cell]:  # fmt: skip
    """Return every arm of every seed; all start from the first seed's warm start."""
    return [
        Cell(recipe, corpus, out, seeds[0], seed, arm, views, native, transitions)
        for seed in seeds
        for arm in ARMS
    ]


def write_arm(folder: Path, result: dict[str, Any]) -> None:
    """Write a result as the file that reports read: ARM-SEED.json."""
    _write(folder / f"{result['arm']}-{result['seed']}.json", result)


def relative(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort results by seed and arm, with probe losses divided by those of Decision only."""
    rows = sorted(results, key=lambda r: (r["seed"], ARMS.index(r["arm"])))
    base = {row["seed"]: row for row in rows if row["arm"] == "decision"}
    for row in rows:
        for name in ("probe all", "probe eventful"):
            if row["seed"] in base and base[row["seed"]].get(name):
                row[f"{name}, relative"] = row[name] / base[row["seed"]][name]
    return rows
