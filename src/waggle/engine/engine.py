"""The decoding engine: many prompts in, greedy answers out.

Rows enter free cache slots as others leave (continuous batching), so small swarms and parallel
episodes fill one machine; callers in several threads share the same batches. Modes are per prompt:
constrained (paper-external, exact masked greedy) or free with lossless speculation. Invariant: in
float32 the tokens of a prompt are those of plain greedy decoding, whatever shares its batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from waggle.core.errors import ConfigError
from waggle.engine import collector, flights
from waggle.engine.answers import Answers
from waggle.engine.backends.base import Backend, Pace
from waggle.engine.backends.lean import LeanBackend
from waggle.engine.backends.transformers import PlainBackend
from waggle.engine.beginnings import Beginnings
from waggle.engine.bound_rows import ConstrainedRow
from waggle.engine.constraint.grammar import Common, Grammar
from waggle.engine.constraint.matcher import Constraint, Make
from waggle.engine.constraint.vocabulary import Vocabulary
from waggle.engine.echoes import Echoes
from waggle.engine.ends import end_tokens
from waggle.engine.expected_rows import ExpectedRow
from waggle.engine.model.config import supports
from waggle.engine.request import Completion, Prompt
from waggle.engine.scheduler import Seat, Seats, Ticket
from waggle.engine.sequence import FreeRow, Row
from waggle.engine.shortage import is_short
from waggle.engine.speculation import ORDER, Habits
from waggle.engine.trial import Trial, standing


class Engine:
    """Greedy decoding of prompts that share prefixes and skeletons.

    Args:
        model: a transformers causal language model in evaluation mode.
        tokenizer: its tokenizer.
        max_rows: cache slots, hence the largest batch; more prompts queue.
        reuse_prefix: run shared prefixes once (off: every prompt runs whole).
        speculate: verify drafts (off: one token or one choice per step).
        graphs: capture CUDA graphs for small steps.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        max_rows: int = 64,
        reuse_prefix: bool = True,
        speculate: bool = True,
        graphs: bool = True,
    ) -> None:
        if max_rows < 1:
            raise ConfigError("max_rows must be at least 1; give the engine one cache slot")
        self.tokenizer = tokenizer
        self.ends = end_tokens(model, tokenizer)
        self._closing = sorted(self.ends)
        self.context = int(getattr(model.config, "max_position_embeddings", 1 << 30))
        # An adapter kept apart changes layers from within; only its own model runs it right.
        lean = supports(model.config) and not hasattr(model, "peft_config")
        self.backend: Backend = (
            LeanBackend(model, max_rows, graphs) if lean else PlainBackend(model, max_rows)
        )
        self.reuse_prefix = reuse_prefix
        self.speculate = speculate
        self.batches = 0
        """Passes so far."""
        self._turns = 0
        self._rows = max_rows
        self.unlearn()
        self._seats = Seats(max_rows)
        self._aloft: deque[flights.Flight] = deque()
        self._driver = threading.Lock()

    def unlearn(self) -> None:
        """Forget what grammars and answers have taught, as if none had been met here."""
        self.vocabulary = Vocabulary(self.tokenizer)
        self._common = Common()
        self._habits = Habits()
        self._answers = Answers()
        self._trial = Trial()
        self._beginnings = Beginnings()
        self._echoes = Echoes()

    def constraint(self, grammar: Grammar | Make) -> Constraint:
        """Bind a grammar, or what will make it when it is needed, to this engine's tokenizer."""
        return Constraint(grammar, self.vocabulary, min(self.ends, default=-1), self._common)

    @property
    def drafts(self) -> bool:
        """Whether free answers are drafted here; if not, a skeleton is of no use."""
        return self.speculate and self._trial.drafts(self._least)

    @property
    def _least(self) -> float:
        return self.backend.least(self._rows, self._trial.effort)

    @property
    def expects(self) -> bool:
        """Whether answers that come with their prompts are tried here."""
        return self._trial.expects and self._pace is not None

    @property
    def _pace(self) -> Pace | None:
        return self.backend.pace(self._rows) if self.speculate else None

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Decode every prompt; safe to call from several threads, which then share batches."""
        ticket = Ticket(len(prompts))
        with collector.held():
            self._queue(prompts, ticket)
            while not ticket.complete:
                # Whoever holds the driver's seat advances everybody's rows, step by step.
                with self._driver:
                    if not ticket.complete:
                        self._turn()
        if ticket.error is not None:
            raise ticket.error
        return [done for done in ticket.completions if done is not None]

    def _queue(self, prompts: Sequence[Prompt], ticket: Ticket) -> None:
        """Let prompts wait as rows; nobody else holds these, so each goes when it is answered."""
        pace = self._pace
        foretold = self._foretold(prompts)
        # A GPU runs the few tokens in no time, and its host has none to look for them.
        if self.reuse_prefix and not self.backend.asynchronous:
            prompts = self._beginnings.stretched(prompts)
        rows = [self._row(prompt, pace, foretold) for prompt in prompts]
        flights.relate(rows)
        self._seats.queue(Seat(row, ticket, index) for index, row in enumerate(rows))

    def _foretold(self, prompts: Sequence[Prompt]) -> bool:
        """Whether constrained answers are tried as they came with prompts, if any did."""
        return self.expects and any(
            prompt.draft and prompt.grammar is not None for prompt in prompts
        )

    def _row(self, prompt: Prompt, pace: Pace | None, foretold: bool) -> Row:
        prompt = prompt if self.reuse_prefix else prompt.unsplit()
        prompt.check(self.context)
        if prompt.grammar is not None:
            if prompt.draft and foretold:
                return ExpectedRow(prompt, self.ends, self._habits, pace)
            return ConstrainedRow(prompt, self.ends, self._habits, pace)
        return FreeRow(prompt, self.ends, self._habits, pace)

    def _turn(self) -> None:
        """Go one turn on; a batch that fails is lost, one that does not fit is begun again."""
        self._turns += 1
        collector.breathe(self._turns)
        try:
            self._advance()
            return
        except Exception as error:
            failure, short = error, is_short(error)
        if short:  # what the failed work held hangs on its tracebacks
            failure.__traceback__ = failure.__context__ = None
        self._aloft.clear()
        if not (short and self._seats.again(self.backend, self._renewed)):
            # The batch is lost, not the engine: every caller in it gets the same error.
            for ticket in self._seats.clear(self.backend):
                ticket.fail(failure)
        self.backend.forget()

    def _advance(self) -> None:
        """Admit waiting rows, send the ready ones off, hand out what has come back.

        Where a device works by itself, one flight is read while the next one is run.
        """
        most = flights.portion(self._rows, self.backend.asynchronous)
        self._seats.admit(self.backend, most, flights.LEAST)
        sent = self._launch()
        if self._aloft:  # what is not known yet is not needed for those who wait
            self._open(self._seats.next(most))
        if len(self._aloft) > 1 or (self._aloft and not sent):
            self._land(self._aloft.popleft())
        self._seats.leave(self.backend, self._close)

    def _renewed(self, row: Row) -> Row:
        """Return a row as it was before its first pass: it will say the same."""
        fresh = self._row(row.prompt, self._pace, self._foretold([row.prompt]))
        fresh.family = row.family
        return fresh

    def _open(self, rows: Iterable[Row]) -> None:
        """Get rows ready for their first pass; free ones draft if that pays here."""
        fresh = [row for row in rows if not row.opened]
        if not fresh:
            return
        expects, drafts = self.expects, self.drafts  # asked once: they change slowly
        pays = self.backend.foretells(self._rows, self._trial.effort)
        for row in fresh:
            row.opened = True
            if not isinstance(row, FreeRow):
                row.open()
            else:  # where what is given does not pay, drafts of our own do so even less
                given = bool(row.prompt.draft) and expects
                self._open_free(row, given and pays, drafts and not given)

    def _open_free(self, row: FreeRow, expects: bool, drafts: bool) -> None:
        start = time.perf_counter()
        if expects or drafts:
            at_once = self.backend.asynchronous
            row.quote(partial(self._echoes.of, row.prompt.prefix), expects, at_once)
        row.open()
        self._trial.opened(row, expects, time.perf_counter() - start)

    def _launch(self) -> bool:
        """Send every row off that is not on its way; whether there was any.

        The host gets ready for the answers when all are sent. Rows that could roll ride with the
        others; they roll when nobody else is on the way.
        """
        ready = [row for row in self._seats.rows() if not row.aloft]
        if self.backend.rolls and all(row.plain and row.cached for row in ready):
            if ready and not self._aloft:
                self._roll(ready)
            return False
        sent: list[Row] = []
        for group in flights.groups(ready, self.backend.asynchronous):
            self._open(group)
            rows = [row for row in group if not row.done]
            if not rows:
                continue
            flight = flights.send(self.backend, rows, self._closing)
            self.batches += 1
            if self.backend.asynchronous:
                self._aloft.append(flight)
                sent += rows
            else:
                self._land(flight)
        for row in sent:
            row.prepare()
        return bool(sent)

    def _land(self, flight: flights.Flight) -> None:
        """Hand each row of a flight what the model said."""
        for part in flight:
            said, first, least = flights.sound(part.said()), 0, self._least
            start = time.perf_counter()
            for row in part.rows:
                last, before = first + len(row.asked), standing(row)
                row.aloft = False
                row.answered(said[first:last])
                first = last
                if before is not None:
                    self._trial.weigh(row, before, least)
            self._trial.landed(part.rows, time.perf_counter() - start)

    def _roll(self, rows: list[Row]) -> None:
        """Let rows that the host drafts nothing for go on by themselves for some steps."""
        least = self.backend.recalls(len(rows))
        answers = self._answers if self.speculate and self._trial.recalls(least) else None
        found = self.backend.roll([flights.rolling(row) for row in rows], self._closing, answers)
        self.batches += max(rolled.steps for rolled in found)
        for row, rolled in zip(rows, found, strict=True):
            flights.sound(rolled.tokens)
            row.rolled(rolled)
        self._trial.rolled(found, least)

    def _close(self, row: Row) -> Completion:
        self._trial.effort.closed(len(row.answer))
        if isinstance(row, FreeRow):
            told = *row.prompt.tail[-ORDER:], *row.answer
            if self.backend.rolls:
                self._answers.add(told)
            if row.drafter is not None and row.drafter.strays:
                self._habits.remember(told)
        for bound in (row.prompt.grammar, row.prompt.skeleton):
            if bound is not None:
                bound.shed()
        return row.completion(self.vocabulary.text(row.answer), len(row.prompt.prefix))
