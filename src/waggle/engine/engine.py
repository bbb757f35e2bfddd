"""The decoding engine: many prompts in, greedy answers out.

Rows enter free cache slots as others leave (continuous batching), so small swarms and parallel
episodes fill one machine; callers in several threads share the same batches. Modes are per prompt:
constrained (paper-external, exact masked greedy) or free with lossless speculation. Invariant: in
float32 the tokens of a prompt are those of plain greedy decoding, whatever shares its batch.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from waggle.core.errors import ConfigError
from waggle.engine import collector
from waggle.engine.backend import LeanBackend
from waggle.engine.constraint import Constraint
from waggle.engine.decoder import supports
from waggle.engine.draft import ORDER, Echo, Habits
from waggle.engine.grammar import Grammar
from waggle.engine.judge import Judge
from waggle.engine.passes import Backend, Rolling, Said
from waggle.engine.plain import PlainBackend
from waggle.engine.request import Completion, Prompt
from waggle.engine.rows import ConstrainedRow, FreeRow, Row
from waggle.engine.vocabulary import Vocabulary

SPLIT = 32
"""Entering rows that are sent off in two halves: the second is opened while the first is run."""
MAX_ECHOES = 8
"""Prefixes whose text drafts may quote."""


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
        self.vocabulary = Vocabulary(tokenizer)
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
        self._habits = Habits()
        self._judge = Judge()
        self._echoes: OrderedDict[tuple[int, ...], Echo] = OrderedDict()
        self._queue: deque[tuple[Row, _Ticket, int]] = deque()
        self._free = sorted(range(max_rows), reverse=True)
        self._active: list[tuple[Row, _Ticket, int]] = []
        self._driver = threading.Lock()
        self._door = threading.Lock()

    def constraint(self, grammar: Grammar) -> Constraint:
        """Bind a grammar to this engine's tokenizer."""
        return Constraint(grammar, self.vocabulary, min(self.ends, default=-1))

    @property
    def drafts(self) -> bool:
        """Whether free answers are drafted here; if not, a skeleton is of no use."""
        return self.speculate and self._judge.drafts and self.backend.least(self._rows) < 1.0

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Decode every prompt; safe to call from several threads, which then share batches."""
        ticket = _Ticket(len(prompts))
        with collector.held():
            rows = [self._row(prompt) for prompt in prompts]
            self._relate(rows)
            with self._door:
                self._queue.extend((row, ticket, index) for index, row in enumerate(rows))
            while not ticket.complete:
                # Whoever holds the driver's seat advances everybody's rows, step by step.
                with self._driver:
                    if not ticket.complete:
                        self._turn()
        if ticket.error is not None:
            raise ticket.error
        return [done for done in ticket.completions if done is not None]

    def _row(self, prompt: Prompt) -> Row:
        prompt = prompt if self.reuse_prefix else _unsplit(prompt)
        if not prompt.tail:
            raise ConfigError("a prompt needs at least one token after its prefix; give it a tail")
        length = len(prompt.prefix) + len(prompt.tail) + prompt.max_new_tokens
        if length > self.context:
            raise ConfigError(
                f"prompt and answer need {length} positions but the model has {self.context}; "
                "shorten the prompt or lower max_new_tokens"
            )
        pace = self.backend.pace(self._rows) if self.speculate else None
        if prompt.grammar is not None:
            return ConstrainedRow(prompt, self.ends, self._habits, pace)
        return FreeRow(prompt, self.ends, self._habits, pace)

    def _relate(self, rows: list[Row]) -> None:
        """Number rows by their prefixes, which are long: they are compared here and nowhere else.

        Numbers serve to put rows side by side; those of another call may be the same by chance.
        """
        families: dict[tuple[int, ...], int] = {}
        for row in rows:
            row.family = families.setdefault(row.prompt.prefix, len(families))

    def _echo(self, prefix: tuple[int, ...]) -> Echo:
        """Return what a prefix says after which tokens, read once."""
        known = self._echoes.get(prefix)
        if known is None:
            known = self._echoes[prefix] = Echo(prefix)
            while len(self._echoes) > MAX_ECHOES:
                self._echoes.popitem(last=False)
        return known

    def _turn(self) -> None:
        """Admit waiting rows, send the ready ones off, hand out what has come back."""
        self._turns += 1
        collector.breathe(self._turns)
        try:
            self._admit()
            self._land(self._launch())
            self._retire()
        except Exception as error:
            # The batch is lost, not the engine: every caller in it gets the same error.
            for row, ticket, _ in (*self._active, *self._queue):
                ticket.fail(error)
                self._release(row)
            self._active.clear()
            self._queue.clear()
            self.backend.forget()

    def _launch(self) -> list[_Part]:
        """Send every row off; where the device works by itself, return what is on the way.

        All rows share a pass: to a GPU many are as few. The host gets ready for the answers while
        prompts are run, and reads rows under way while entering ones are.
        """
        ready = [row for row, _, _ in self._active]
        flight: list[_Part] = []
        sent: list[Row] = []
        for group in self._groups(ready):
            for row in group:
                if not row.cached:
                    row.open()
            rows = [row for row in group if not row.done]
            if not rows:
                continue
            if self.backend.rolls and rows[0].plain and rows[0].cached:
                self._roll(rows)
            elif self.backend.asynchronous:
                flight += self._step(rows)
                sent += rows
            else:
                self._land(self._step(rows))
        for row in sent:
            row.prepare()
        return flight

    def _land(self, flight: list[_Part]) -> None:
        """Hand each row of a flight what the model said."""
        for part in flight:
            said, first = part.said(), 0
            for row in part.rows:
                last, known, foretold = first + len(row.asked), len(row.answer), row.accepted
                row.answered(said[first:last])
                first = last
                if row.kind != "choice":
                    self._weigh(row, len(row.answer) - known, row.accepted - foretold)

    def _weigh(self, row: Row, said: int, foretold: int) -> None:
        """Note what drafts brought; a row goes on without them where they bring too little."""
        if row.plain:
            self._judge.plain(said)
            return
        self._judge.drafted(said, foretold, self.backend.least(self._rows))
        if not self._judge.drafts:
            row.undrafted()

    def _admit(self) -> None:
        """Let waiting rows in, in order, as far as there are slots and memory for them."""
        # Where rows roll, a prompt apart from the others costs a pass: let several come together.
        if self.backend.rolls and self._active and 4 * len(self._free) < self._rows:
            return
        with self._door:
            while self._queue and self._free and self._enter(*self._queue[0]):
                self._queue.popleft()

    def _enter(self, row: Row, ticket: _Ticket, index: int) -> bool:
        """Give a row a slot and room; whether it could be."""
        size = len(row.prompt.prefix), len(row.prompt.tail) + row.prompt.max_new_tokens
        held = self.backend.room(*size)
        if held < self._rows:
            taken = max((other.slot for other, _, _ in self._active), default=-1)
            if max(taken, self._free[-1]) >= held:
                return False
        if isinstance(row, FreeRow) and self.drafts:
            row.quote(self._echo(row.prompt.prefix))
        row.slot = self._free.pop()
        self.backend.reserve(*size)
        self._active.append((row, ticket, index))
        return True

    def _groups(self, rows: list[Row]) -> list[list[Row]]:
        """Part rows under way from those entering; of one prefix side by side, by slot.

        Rows under way come first: while their answers are read, nothing else waits for them.
        """
        heads = {row.family: row.slot for row in reversed(rows)}
        if len(heads) > 1:
            rows = sorted(rows, key=lambda row: (heads[row.family], row.slot))
        else:
            rows = sorted(rows, key=lambda row: row.slot)
        going = [row for row in rows if row.cached]
        entering = [row for row in rows if not row.cached]
        first = len(entering)
        if self.backend.asynchronous and first >= SPLIT:
            first //= 2
        parts = [
            [row for row in going if not row.plain],
            [row for row in going if row.plain],
            entering[:first],
            entering[first:],
        ]
        return [part for part in parts if part]

    def _roll(self, rows: list[Row]) -> None:
        """Let rows that nothing is drafted for go on by themselves for some steps."""
        given = [
            Rolling(
                row.slot,
                row.pending[0],
                len(row.prompt.prefix) + row.cached,
                row.prompt.max_new_tokens - len(row.answer),
                row.prompt.ignore_end,
            )
            for row in rows
        ]
        said = self.backend.roll(given, self._closing)
        self.batches += len(said[0])
        for row, tokens in zip(rows, said, strict=True):
            known = len(row.answer)
            row.rolled(tokens)
            self._judge.plain(len(row.answer) - known)

    def _step(self, rows: list[Row]) -> list[_Part]:
        """Run what is pending in some rows and ask what follows."""
        hidden = self.backend.run(
            [row.slot for row in rows],
            [row.pending for row in rows],
            [row.cached for row in rows],
            [row.asked for row in rows],
            [row.prompt.prefix for row in rows],
        )
        self.batches += 1
        for row in rows:
            row.advanced()
        kinds = sorted({row.kind for row in rows})
        edges = list(accumulate((len(row.asked) for row in rows), initial=0))
        return [self._part(kind, rows, edges, hidden, len(kinds) == 1) for kind in kinds]

    def _part(
        self, kind: str, rows: list[Row], edges: list[int], hidden: Any, alike: bool
    ) -> _Part:
        """Ask the output layer for the wanted tokens of one kind."""
        if not alike:
            spans = zip(rows, edges, edges[1:], strict=False)
            hidden = hidden[[i for row, a, b in spans if row.kind == kind for i in range(a, b)]]
            rows = [row for row in rows if row.kind == kind]
        return _Part(rows, self._ask(kind, hidden, rows))

    def _ask(self, kind: str, states: Any, rows: list[Row]) -> Said:
        if kind == "choice":
            offers = [
                offer for row in rows if isinstance(row, ConstrainedRow) for offer in row.offers
            ]
            return self.backend.choose(states, offers)
        return self.backend.argmax(states, self._closing if kind == "forced" else [])

    def _retire(self) -> None:
        if not any(row.finish for row, _, _ in self._active):
            return
        staying = []
        for row, ticket, index in self._active:
            if row.done:
                ticket.put(index, self._close(row))
                self._release(row)
            else:
                staying.append((row, ticket, index))
        self._active = staying

    def _release(self, row: Row) -> None:
        if row.slot >= 0:
            self._free.append(row.slot)
            self._free.sort(reverse=True)
            self.backend.release(row.slot)
            row.slot = -1

    def _close(self, row: Row) -> Completion:
        if row.kind != "choice" and not row.plain:
            self._habits.remember([*row.prompt.tail[-ORDER:], *row.answer])
        return row.completion(self.vocabulary.text(row.answer), len(row.prompt.prefix))


class _Part(NamedTuple):
    """Rows whose next tokens were asked for in one way."""

    rows: list[Row]
    said: Said


class _Ticket:
    """The answers one caller waits for."""

    def __init__(self, count: int) -> None:
        self.completions: list[Completion | None] = [None] * count
        self.error: Exception | None = None
        self._open = count

    @property
    def complete(self) -> bool:
        return self.error is not None or self._open == 0

    def put(self, index: int, completion: Completion) -> None:
        self.completions[index] = completion
        self._open -= 1

    def fail(self, error: Exception) -> None:
        self.error = error


def _unsplit(prompt: Prompt) -> Prompt:
    return Prompt(
        tail=(*prompt.prefix, *prompt.tail),
        grammar=prompt.grammar,
        skeleton=prompt.skeleton,
        max_new_tokens=prompt.max_new_tokens,
        ignore_end=prompt.ignore_end,
    )


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens after which `generate` of this model stops."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    if configured is None:
        configured = tokenizer.eos_token_id
    if configured is None:
        return frozenset()
    return frozenset([configured] if isinstance(configured, int) else configured)
