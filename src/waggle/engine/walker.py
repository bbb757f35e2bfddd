"""A process that follows grammars for an engine: it opens rows, and plans on from their choices.

Following a grammar is the host's work, all of it Python, and a GPU waits for it; several processes
do it on several cores (see `waggle.engine.walkers`, which starts them). What a row says is the same
wherever it is followed; what answers teach about guesses stays in the process. Talks over one line:
tasks come, plans or errors go back. Rows under way go before those that are to be opened, whenever
they come. Ends when the line does.
"""

from __future__ import annotations

import gc
import pickle
import signal
import sys
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

from waggle.engine import wire
from waggle.engine.bound_rows import ConstrainedRow
from waggle.engine.constraint.grammar import Common
from waggle.engine.constraint.matcher import Constraint
from waggle.engine.constraint.vocabulary import Vocabulary
from waggle.engine.line import Line
from waggle.engine.request import Prompt
from waggle.engine.speculation import Habits
from waggle.engine.wire import Opening, Plan, Task


class Setting(NamedTuple):
    """What a process is told once."""

    tokenizer: str
    """A tokenizer of the `tokenizers` library, as JSON."""
    end: int
    """The token that ends a constrained answer."""
    ends: frozenset[int]


class Spelling:
    """As much of a tokenizer as grammars need."""

    clean_up_tokenization_spaces = False
    all_special_ids: tuple[int, ...] = ()

    def __init__(self, text: str) -> None:
        from tokenizers import Tokenizer

        self.backend_tokenizer: Any = Tokenizer.from_str(text)

    def convert_ids_to_tokens(self, token: int) -> str | None:
        """Return the word of a token."""
        found: str | None = self.backend_tokenizer.id_to_token(token)
        return found

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Return the tokens of a text."""
        found: list[int] = self.backend_tokenizer.encode(
            text, add_special_tokens=add_special_tokens
        ).ids
        return found


class Walker:
    """Rows by their numbers, and what they have taught."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._tokenizer = Spelling(setting.tokenizer)
        self._rows: dict[int, ConstrainedRow] = {}
        self._waiting: deque[Opening] = deque()
        self._opened: list[Plan] = []
        """Rows that were opened and not told of yet."""
        self._unlearn()

    def _unlearn(self) -> None:
        self._vocabulary = Vocabulary(self._tokenizer)
        self._common, self._habits = Common(), Habits()

    def turn(self, line: Line) -> None:
        """Do what is told next, or, while nothing is, open a row that was put off."""
        if not self._waiting or line.waiting:
            self._take(wire.read_task(line.receive()), line)
            return
        opening = self._waiting.popleft()
        try:
            self._opened.append(self._open(opening))
        except Exception as error:
            line.send(wire.failure(1, error))
        if self._opened and not self._waiting:
            line.send(wire.plans(self._opened))
            self._opened.clear()

    def _take(self, task: Task, line: Line) -> None:
        """Let rows go on, and tell at once, since a device waits for them; others are put off."""
        if task.forget:
            self._forget(line)
        if task.unlearn:
            self._unlearn()
        self._waiting.extend(task.openings)
        if task.answers:
            try:
                found = wire.plans([self._go_on(*answer) for answer in task.answers])
            except Exception as error:  # the engine's callers are told, the process goes on
                found = wire.failure(len(task.answers), error)
            line.send(found)

    def _forget(self, line: Line) -> None:
        """Drop all rows; those that nothing was said about are accounted for."""
        untold = len(self._waiting) + len(self._opened)
        if untold:
            line.send(wire.failure(untold, LookupError("rows were dropped")))
        self._rows.clear()
        self._waiting.clear()
        self._opened.clear()

    def _open(self, opening: Opening) -> Plan:
        make = wire.unpacked(opening.make)
        bound = Constraint(make, self._vocabulary, self._setting.end, self._common)
        prompt = Prompt(opening.tail, grammar=bound, max_new_tokens=opening.room)
        row = ConstrainedRow(prompt, self._setting.ends, self._habits, wire.pace(opening.pace))
        self._rows[opening.number] = row
        row.open()
        return self._plan(opening.number, row, 0)

    def _go_on(self, number: int, said: list[int]) -> Plan:
        row = self._rows[number]
        known = len(row.answer)
        row.advanced()
        row.answered(said)
        return self._plan(number, row, known)

    def _plan(self, number: int, row: ConstrainedRow, known: int) -> Plan:
        if row.finish:
            del self._rows[number]
        return Plan(
            number, wire.spelled(row.pending), row.asked, row.offers, row.answer[known:],
            row.finish, row.cached, row.drafted, row.accepted,
        )  # fmt: skip


def main() -> None:
    """Serve the line whose number is given, told about everything else on the standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever interrupts the engine means the engine
    line = Line.of(int(sys.argv[1]))
    walker = Walker(pickle.load(sys.stdin.buffer))
    gc.freeze()
    gc.set_threshold(
        100_000, 20, 20
    )  # rows leave little behind: see `waggle.engine.constraint.lookahead.Memo`
    line.send(b"ready")
    with suppress(EOFError, OSError):  # the engine is gone
        while True:
            walker.turn(line)
