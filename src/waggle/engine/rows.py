"""The state of one request inside the engine: which tokens are decided, which still to be run.

Pure bookkeeping over token lists; the model is elsewhere. Invariant: `pending` is never empty
while a row is active, and its first token is the earliest one whose keys are not cached yet.
"""

from __future__ import annotations

from waggle.engine.constraint import Walk
from waggle.engine.draft import Drafter, Echo
from waggle.engine.request import Completion, Prompt, Usage


class Row:
    """One request being decoded; subclasses differ in how a model answer is used."""

    def __init__(self, prompt: Prompt, ends: frozenset[int]) -> None:
        self.prompt = prompt
        self.ends = ends
        self.slot = -1
        self.cached = 0
        self.pending: list[int] = list(prompt.tail)
        self.answer: list[int] = []
        self.finish = ""
        self.steps = 0
        self.drafted = 0
        self.accepted = 0

    @property
    def done(self) -> bool:
        """Whether the answer is complete."""
        return bool(self.finish)

    def advanced(self) -> None:
        """Note that the pending tokens went through the model."""
        self.cached += len(self.pending)
        self.steps += 1

    def _append(self, token: int) -> None:
        if token in self.ends and not self.prompt.ignore_end:
            self.finish = "stop"
            return
        self.answer.append(token)
        if len(self.answer) >= self.prompt.max_new_tokens:
            self.finish = "length"

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


class ConstrainedRow(Row):
    """Follows a grammar: forced tokens are appended, choices are asked of the model."""

    def __init__(self, prompt: Prompt, ends: frozenset[int]) -> None:
        super().__init__(prompt, ends)
        assert prompt.grammar is not None
        self.walk: Walk = prompt.grammar.walk()
        self._settle([])

    @property
    def choices(self) -> tuple[int, ...]:
        """The tokens the model may choose from now."""
        return self.walk.options().tokens

    def choose(self, token: int) -> None:
        """Take the model's choice and everything it forces."""
        self.walk.take(token)
        self._settle([token])

    def _settle(self, decided: list[int]) -> None:
        decided = decided + self.walk.jump()
        for token in decided:
            if not self.done:
                self._append(token)
        if self.walk.finished and not self.done:
            self.finish = "stop"
        self.pending = decided if self.steps else self.pending + decided


class FreeRow(Row):
    """Plain greedy decoding with verified drafts."""

    def __init__(self, prompt: Prompt, ends: frozenset[int], siblings: Echo, draft: bool) -> None:
        super().__init__(prompt, ends)
        walk = prompt.skeleton.walk() if prompt.skeleton is not None else None
        self.drafter = Drafter(siblings, prompt.tail, walk) if draft else None
        self.draft: list[int] = []

    def confirm(self, predicted: list[int]) -> None:
        """Use the model's argmax after the last decided token and after each draft token."""
        agreed = 0
        known = len(self.answer)
        for token in predicted:
            self._append(token)
            if self.done or agreed >= len(self.draft) or self.draft[agreed] != token:
                break
            agreed += 1
        self._account(agreed)
        if not self.done:
            self._propose(self.answer[known:])

    def _account(self, agreed: int) -> None:
        self.drafted += len(self.draft)
        self.accepted += agreed
        self.cached -= len(self.draft) - agreed
        if self.drafter is not None:
            self.drafter.learn(len(self.draft), agreed)

    def _propose(self, confirmed: list[int]) -> None:
        self.draft = []
        if self.drafter is not None:
            self.drafter.follow(confirmed)
            room = self.prompt.max_new_tokens - len(self.answer) - 1
            self.draft = self.drafter.propose(room)
        self.pending = [self.answer[-1], *self.draft]
