"""The state of one request inside the engine: which tokens are decided, which still to be run.

Pure bookkeeping over token lists; the model is elsewhere. `asked` lists the offsets in `pending`
whose next token is the model's to say. Invariant: `pending` is never empty while a row is active,
and its first token is the earliest one whose keys are not cached yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from waggle.engine.backends.base import Pace, Rolled
from waggle.engine.echoes import Echo
from waggle.engine.request import Completion, Prompt, Usage
from waggle.engine.speculation import Drafter, Habits

ASKED = list(range(256))
"""Offsets of a chunk that is asked everywhere."""


class Row:
    """One request being decoded; subclasses differ in how a model answer is used."""

    kind = ""
    """How tokens are asked for: `choice` among offers, `free`, or `forced` past the end tokens."""

    walks = False
    """Whether it takes many passes, each of which the host lays out."""

    plain = False
    """Whether every next token is the model's argmax after the last one, and nothing is drafted."""

    def __init__(self, prompt: Prompt, ends: frozenset[int]) -> None:
        self.prompt = prompt
        self.family = 0
        """A number that rows of one prefix have in common."""
        self.ends = ends
        self.slot = -1
        self.cached = 0
        self.pending: Sequence[int] = list(prompt.tail)
        self.asked: list[int] = [len(self.pending) - 1]
        self.expected: Sequence[int] = ()
        """The answer that came with the prompt, as long as it serves as a draft."""
        self.opened = False
        """Whether it is ready for its first pass."""
        self.aloft = False
        """Whether a pass with this row is on its way."""
        self.answer: list[int] = []
        self.finish = ""
        self.steps = 0
        self.drafted = 0
        self.accepted = 0

    @property
    def done(self) -> bool:
        """Whether the answer is complete."""
        return bool(self.finish)

    def open(self) -> None:
        """Get ready for the first pass."""

    def advanced(self) -> None:
        """Note that the pending tokens went through the model."""
        self.cached += len(self.pending)
        self.steps += 1
        self.aloft = True

    def prepare(self) -> None:
        """Use the time while the model runs; nothing may depend on it."""

    def answered(self, tokens: Sequence[int]) -> None:
        """Use what the model says after each asked offset."""
        raise NotImplementedError

    def undrafted(self) -> None:
        """Go on without drafts, where there were any."""

    def _append(self, tokens: Sequence[int]) -> None:
        """Decide tokens, up to an end token or the longest answer."""
        if self.finish:
            return
        if not self.prompt.ignore_end and not self.ends.isdisjoint(tokens):
            stop = next(index for index, token in enumerate(tokens) if token in self.ends)
            tokens, self.finish = tokens[:stop], "stop"
        room = self.prompt.max_new_tokens - len(self.answer)
        self.answer.extend(tokens[:room])
        if len(tokens) >= room:
            self.finish = "length"

    def rolled(self, rolled: Rolled) -> None:
        """Use tokens that followed one another."""
        self._append(rolled.tokens)
        self.cached += len(rolled.tokens)
        self.steps += rolled.steps
        self.drafted += rolled.drafted
        self.accepted += len(rolled.tokens) - rolled.steps
        self.pending = self.answer[-1:]

    def completion(self, text: str, reused: int) -> Completion:
        """Close the row."""
        usage = Usage(
            prompt_tokens=len(self.prompt.prefix) + len(self.prompt.tail),
            cached_tokens=reused,
            completion_tokens=len(self.answer),
            model_steps=self.steps,
            drafted_tokens=self.drafted,
            accepted_tokens=self.accepted,
        )
        return Completion(text, tuple(self.answer), self.finish, usage)


class FreeRow(Row):
    """Plain greedy decoding with verified drafts.

    An answer that somebody expects is run behind the prompt itself, and verified in that pass; what
    is left of it behind a token that differs is drafted once more, place by place.
    """

    def __init__(
        self,
        prompt: Prompt,
        ends: frozenset[int],
        habits: Habits,
        pace: Pace | None,
    ) -> None:
        """Prepare a row; until it may quote its prefix it drafts nothing."""
        super().__init__(prompt, ends)
        self.kind = "forced" if prompt.ignore_end else "free"
        self._habits = habits
        self._prefix: Callable[[], Echo] | None = None
        self._pace = pace
        self._expects = self._at_once = False
        self.plain = True
        self.drafter: Drafter | None = None
        self.draft: list[int] = []

    def quote(
        self, prefix: Callable[[], Echo], expect: bool = False, at_once: bool = False
    ) -> None:
        """Draft this answer, from what its prefix says among others, or as it is expected.

        Its beginning is drafted behind the prompt only `at_once`: it needs the grammar by then.
        """
        self._prefix = prefix
        self.plain = self._pace is None
        self._expects, self._at_once = expect, at_once

    def open(self) -> None:
        """Run the answer that is expected behind the prompt, or what may be its beginning."""
        room = self.prompt.max_new_tokens - 1
        if self._expects:
            self.expected = self.prompt.expected()
            self.draft = list(self.expected[:room])
        elif self._at_once:
            self.prepare()
            self.draft = [] if self.drafter is None else self.drafter.propose(room)
        first = len(self.pending) - 1
        self.pending = [*self.pending, *self.draft]
        self.asked = list(range(first, len(self.pending)))

    def undrafted(self) -> None:
        """Go on without drafts."""
        self.drafter, self._prefix, self.draft = None, None, []
        self.plain = True
        self.pending = self.pending[:1]
        self.asked = self.asked[:1]

    def prepare(self) -> None:
        """Read the prompt for drafts, where the expected answer does not serve."""
        if self.expected or self.drafter is not None:
            return
        if self._pace is not None and self._prefix is not None:
            told = self.prompt.skeleton, self._pace
            self.drafter = Drafter(self._habits, self.prompt.tail, self._prefix(), *told)
            self.drafter.follow(self.answer)

    def answered(self, tokens: Sequence[int]) -> None:
        """Use the model's argmax after the last decided token and after each draft token."""
        self.prepare()
        agreed = _agreed(self.draft, tokens)
        known = len(self.answer)
        self._append(tokens[: agreed + 1])
        self.drafted += len(self.draft)
        self.accepted += agreed
        self.cached -= len(self.draft) - agreed
        if self.drafter is not None:
            self.drafter.learn(len(self.draft), agreed)
            self.drafter.follow(self.answer[known:])
        if not self.done:
            self._propose(agreed)

    def _propose(self, agreed: int) -> None:
        room = self.prompt.max_new_tokens - len(self.answer) - 1
        rest = self.expected[len(self.answer) :]
        if self.expected and not (rest and (agreed or self.steps == 1)):
            self.expected = rest = ()  # the answer went another way
            self.prepare()
        if rest:
            self.draft = list(rest[: max(0, room)])
        else:
            self.draft = [] if self.drafter is None else self.drafter.propose(room)
        self.pending = [self.answer[-1], *self.draft]
        self.asked = ASKED[: len(self.pending)]


def _agreed(draft: list[int], said: Sequence[int]) -> int:
    """Return how many drafted tokens were said, from the first on."""
    if said[: len(draft)] == draft:
        return len(draft)
    return next(i for i, (a, b) in enumerate(zip(draft, said, strict=False)) if a != b)
