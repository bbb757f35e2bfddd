"""Processes that follow grammars while the engine runs the model: one engine, several cores.

Used where a device works by itself and the machine has cores to spare; `WAGGLE_WALKERS` in the
environment says how many processes there are, 0 that there are none. Rows are opened and told
what the model said in one message for each process, and what they plan is read when it is needed.
Until all processes are ready, and from when one is lost, rows are followed here. Invariant: what a
row says does not depend on where it is followed.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterable, Sequence
from multiprocessing import parent_process
from tempfile import TemporaryFile
from typing import Any, Protocol

from waggle.core.errors import ConfigError, WaggleError
from waggle.engine import wire
from waggle.engine.backends.base import Pace
from waggle.engine.line import Line
from waggle.engine.request import Prompt
from waggle.engine.walker import Setting
from waggle.engine.wire import Opening, Plan, Task

MOST = 12
"""Processes of an engine; a message to each costs the engine's own process some time."""
CORES = 4
"""Cores that a machine must have for them."""
VARIABLE = "WAGGLE_WALKERS"
UNHEARD = 1 << 16
"""Bytes that a line takes although nobody reads it."""
BEGIN = "from waggle.engine.walker import main; main()"
"""What a process runs: not the module itself, whose classes would then be others than ours."""


def fitting(rows: int) -> int:
    """Return how many processes an engine of so many rows has on this machine.

    In one of several processes it has none of its own: the others have the cores.

    Raises:
        ConfigError: when the environment names no number.
    """
    wish = os.environ.get(VARIABLE)
    if wish is not None:
        if not (wish.isascii() and wish.isdigit() and int(wish) <= MOST):
            raise ConfigError(f"{VARIABLE} is {wish!r}; set it to 0 to {MOST} or not at all")
        return int(wish)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    count = min(MOST, cores * 3 // 4, rows // 4)
    return 0 if cores < CORES or count < 2 or parent_process() is not None else count


class Lost(WaggleError):
    """A process that follows grammars is gone."""


class Walked(Protocol):
    """A row as the processes know it."""

    prompt: Prompt
    number: int
    away: bool
    """Whether its next plan is still to be read."""

    def follow(self, plan: Plan) -> None:
        """Go on as was planned."""
        ...

    def restart(self) -> None:
        """Be as before it was opened."""
        ...


class _Link:
    """One process, and what is to be told to it next."""

    def __init__(self, setting: bytes) -> None:
        ours, theirs = socket.socketpair()
        self.line = Line(ours)
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with TemporaryFile() as told, theirs:
            told.write(setting)
            told.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-c", BEGIN, str(theirs.fileno())],
                stdin=told, pass_fds=[theirs.fileno()], env=alone,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        self.ready = False
        self.due = self.stale = 0
        """Rows it will tell of, and how many of the next ones nobody wants any more."""
        self.rows = 0
        """Rows that it follows."""
        self.unheard = 0
        """Bytes that were sent since no reply was due."""
        self.forget = self.unlearn = False
        self.answers: list[tuple[int, list[int]]] = []
        self.openings: list[Opening] = []

    @property
    def laden(self) -> bool:
        """Whether there is something to tell."""
        return bool(self.answers or self.openings or self.forget or self.unlearn)

    def told(self) -> bytes:
        """Return all of it."""
        return wire.task(Task(self.forget, self.unlearn, self.answers, self.openings))

    def send(self, told: bytes) -> None:
        """Tell it."""
        self.unheard = self.unheard + len(told) if self.due else len(told)
        self.due += len(self.answers) + len(self.openings)
        self.forget = self.unlearn = False
        self.answers, self.openings = [], []
        self.line.send(told)

    def read(self) -> list[Plan]:
        """Wait for its next reply."""
        rows, found = wire.read_plans(self.line.receive())
        self.due -= rows
        if self.stale:
            self.stale -= rows
            return []
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Let it end, which it does when nobody can talk to it."""
        self.line.close()
        self._process.kill()
        self._process.wait()


class Walkers:
    """The processes of one engine, started when the first row would need them."""

    def __init__(self, tokenizer: Any, ends: frozenset[int], count: int) -> None:
        """Have so many processes, or none: then every row is followed here."""
        self._inner: Any = getattr(tokenizer, "backend_tokenizer", None)
        self._ends = ends
        self._count = 0 if self._inner is None else count
        self._links: list[_Link] = []
        weakref.finalize(self, _end_all, self._links)
        self._rows: dict[int, Walked] = {}
        self._opened = 0
        self.wanted = False
        """Whether a row would have been followed elsewhere."""
        self.ready = False

    def describe(self) -> str:
        """Say how many there are, for reports; nothing where there are none."""
        return f", {len(self._links)} processes for grammars" if self.ready else ""

    def fetch(self, rows: Iterable[Any]) -> bool:
        """Read how rows go on that are followed elsewhere; whether there were any."""
        if not self._count:
            return False
        away: list[Walked] = [row for row in rows if row.away]
        try:
            if not self.ready:
                self._begin()
            self._flush()
            for row in away:
                while row.away:
                    self._read(self._link(row))
        except (EOFError, OSError) as error:
            self._lose(error)
        return bool(away)

    def _begin(self) -> None:
        if not self.wanted:
            return
        if not self._links:
            end = min(self._ends, default=-1)
            setting = pickle.dumps(Setting(self._inner.to_str(), end, self._ends), protocol=5)
            self._links.extend(_Link(setting) for _ in range(self._count))
        for link in self._links:
            if not link.ready and link.line.waiting:
                link.ready = link.line.receive() == b"ready"
        self.ready = all(link.ready for link in self._links)

    def _lose(self, error: Exception) -> None:
        """Do without processes from now on; rows that were followed there must begin again."""
        begun = bool(self._rows)
        self.forget()
        self.close()
        if begun:
            raise Lost("a process that follows grammars has ended; ask again") from error

    def close(self) -> None:
        """End all processes; nobody starts them again."""
        _end_all(self._links)
        self._count, self.ready = 0, False

    def open(self, row: Walked, pace: Pace | None) -> None:
        """Have a row opened."""
        prompt, row.number, row.away = row.prompt, self._number(), True
        self._rows[row.number] = row
        assert prompt.grammar is not None and prompt.grammar.make is not None
        make, tail = wire.packed(prompt.grammar.make), tuple(prompt.tail)
        reach = None if pace is None else (*pace,)
        opening = Opening(row.number, make, tail, prompt.max_new_tokens, reach)
        self._link(row).openings.append(opening)

    def answered(self, row: Walked, tokens: Sequence[int]) -> None:
        """Have a row told what the model said."""
        row.away = True
        self._link(row).answers.append((row.number, list(tokens)))

    def _number(self) -> int:
        """Return a number for a row, which says to which process it goes: the least busy one."""
        links = self._links
        least = min(range(len(links)), key=lambda index: links[index].rows)
        links[least].rows += 1
        self._opened += 1
        return self._opened * len(links) + least

    def _link(self, row: Walked) -> _Link:
        return self._links[row.number % len(self._links)]

    def flush(self) -> None:
        """Tell every process what there is to tell, without waiting for what it will say."""
        try:
            self._flush()
        except (EOFError, OSError) as error:
            self._lose(error)

    def _flush(self) -> None:
        for link in self._links:
            if link.laden:
                told = link.told()
                while link.due and link.unheard + len(told) > UNHEARD:  # or both ends would wait
                    self._read(link)
                link.send(told)

    def _read(self, link: _Link) -> None:
        for plan in link.read():
            self._rows[plan.number].follow(plan)
            if plan.finish:
                link.rows -= 1
                del self._rows[plan.number]

    def forget(self) -> None:
        """Drop all rows, after a failure; those that wait are opened again."""
        for row in self._rows.values():
            row.restart()
        self._rows.clear()
        for link in self._links:
            link.answers, link.openings, link.forget = [], [], True
            link.rows, link.stale = 0, link.due

    def unlearn(self) -> None:
        """Forget what was found out about grammars and answers."""
        for link in self._links:
            link.unlearn = True


def _end_all(links: list[_Link]) -> None:
    while links:
        links.pop().close()
