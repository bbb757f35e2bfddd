"""Pieces of training side by side, in processes that are started ahead, and each dies alone.

Importing takes a process as long as some hundred updates of a small backbone, so a team is started
before its work is there. Each process builds its backbone once and does one piece after another
with it. Results are kept by the pieces themselves, and one that is there is not made again.
Invariant: a piece that fails, or whose process dies, costs no other.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from waggle.core.errors import WaggleError
from waggle.crew import crew

if TYPE_CHECKING:
    from waggle.scd.config import Recipe
    from waggle.scd.model import Student

TRIES = 2
"""How often a piece is begun whose process dies, or that finds too little memory."""


class Piece(Protocol):
    """Something to train and measure, such as an arm of a factorial."""

    @property
    def name(self) -> str:
        """What a person calls it."""
        ...

    def kept(self) -> dict[str, Any] | None:
        """Return its result if it is there."""
        ...

    def run(self) -> dict[str, Any]:
        """Make its result and keep it."""
        ...

    def tidy(self) -> None:
        """Remove what nothing reads once the result is there."""
        ...


P = TypeVar("P", bound=Piece)
Lost = Callable[[P, str], None]
"""Called with a piece that could not be done, and why."""


def keep(path: Path, result: dict[str, Any]) -> None:
    """Write a result under its name once it is whole."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_text(json.dumps(result), encoding="utf-8")
    os.replace(partial, path)


def found(path: Path) -> dict[str, Any] | None:
    """Return a result that was kept; one that cannot be read is none."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if isinstance(result, dict) else None


_STUDENTS: dict[str, Student] = {}
"""The backbone of this process, by recipe."""


def student_of(recipe: Recipe) -> Student:
    """Return this process's student of a recipe, with whatever weights the last piece left."""
    from waggle.scd.model import Student

    name = recipe.model_dump_json()
    if name not in _STUDENTS:
        _STUDENTS.clear()
        _STUDENTS[name] = Student(recipe, 0)
    return _STUDENTS[name]


def done(piece: Piece) -> dict[str, Any]:
    """Do a piece in this process."""
    try:
        return piece.run()
    except BaseException:
        _STUDENTS.clear()  # whatever state it is in: the next piece builds its own
        raise


def _open(threads: int) -> None:
    """Prepare a process: threads, and all that training and diagnosing import."""
    import torch

    torch.set_num_threads(threads)
    for name in ("trainer", "stages", "findings"):
        import_module(f"waggle.scd.{name}")
    import_module("transformers.models.llama.modeling_llama")


def _begun() -> None:
    """Do nothing, in a process that is thereby started."""


class Team:
    """So many processes, each a pool of its own; a context."""

    def __init__(self, jobs: int) -> None:
        self._threads = max(1, (os.cpu_count() or 1) // jobs)
        self._opened = ExitStack()
        self.pools = [self.fresh() for _ in range(jobs)]

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def fresh(self) -> ProcessPoolExecutor:
        """Start one more process."""
        pool = self._opened.enter_context(crew(1, _open, self._threads))
        pool.submit(_begun)
        return pool


@contextmanager
def hired(pieces: Sequence[Piece], jobs: int) -> Iterator[Team | None]:
    """Start the processes for pieces ahead of them, as many as will have work."""
    left = sum(piece.kept() is None for piece in pieces)
    if jobs <= 1 or not left:
        yield None
        return
    with Team(min(jobs, left)) as team:
        yield team


def _raise(piece: Piece, reason: str) -> None:
    raise WaggleError(f"{piece.name}: {reason}")


def run_all(
    pieces: Sequence[P], jobs: int, lost: Lost[P] = _raise, team: Team | None = None
) -> Iterator[dict[str, Any]]:
    """Do pieces in order, so many at once; yield results as they come.

    Args:
        pieces: those whose results are kept come first.
        jobs: processes; one runs here.
        lost: told of a piece that fails, or twice dies or finds no memory; the others go on.
        team: processes that were started ahead, instead of so many now.
    """
    todo = []
    for piece in pieces:
        if (kept := piece.kept()) is None:
            todo.append(piece)
        else:
            piece.tidy()
            yield kept
    if team is not None:
        yield from _beside(todo, team, lost)
        return
    with hired(todo, jobs) as made:
        yield from _here(todo, lost) if made is None else _beside(todo, made, lost)


def _here(pieces: Sequence[P], lost: Lost[P]) -> Iterator[dict[str, Any]]:
    for piece in pieces:
        try:
            yield done(piece)
        except Exception as error:  # whatever it is, the others go on
            lost(piece, reason(error))


def _beside(pieces: Sequence[P], team: Team, lost: Lost[P]) -> Iterator[dict[str, Any]]:
    """Do pieces in processes, each in the next that is idle; the starved one by one at the end."""
    todo, idle = deque((piece, 1) for piece in pieces), list(team.pools)
    starved: deque[tuple[P, int]] = deque()
    running: dict[Future[dict[str, Any]], tuple[ProcessPoolExecutor, P, int]] = {}
    while todo or running or starved:
        if not (todo or running):  # what others held of the memory is free now
            todo.append(starved.popleft())
        while todo and idle:
            pool, (piece, attempt) = idle.pop(), todo.popleft()
            running[_submitted(pool, piece)] = (pool, piece, attempt)
        for ended in wait(running, return_when=FIRST_COMPLETED).done:
            pool, piece, attempt = running.pop(ended)
            try:
                yield ended.result()
            except BrokenProcessPool:
                pool = team.fresh()
                if attempt < TRIES:
                    todo.append((piece, attempt + 1))
                else:
                    lost(piece, f"its process died {TRIES} times; try again with fewer --jobs")
            except Exception as error:
                if "out of memory" in str(error) and attempt < TRIES:
                    pool.shutdown(wait=False)  # with what the process keeps of the memory
                    pool = team.fresh()
                    starved.append((piece, attempt + 1))
                else:
                    lost(piece, reason(error))
            idle.append(pool)


def _submitted(pool: ProcessPoolExecutor, piece: Piece) -> Future[dict[str, Any]]:
    """Give a piece to a process; one that is dead already says so like one that dies later."""
    try:
        return pool.submit(done, piece)
    except BrokenProcessPool as error:
        dead: Future[dict[str, Any]] = Future()
        dead.set_exception(error)
        return dead


def reason(error: Exception) -> str:
    """Say in one line why a piece failed."""
    said = str(error) if isinstance(error, WaggleError) else f"{type(error).__name__}: {error}"
    return (said.splitlines() or [""])[0][:300]
