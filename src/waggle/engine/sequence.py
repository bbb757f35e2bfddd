"""Sequences: the state of one request in the engine, its decided tokens and those to run next.

Pure bookkeeping over token lists, without the model. `pending` holds the tokens of the next pass
and `asked` the offsets among them after which the model's choice is needed: after the last decided
token, and after draft tokens that the pass verifies. Invariant: the first pending token is the
earliest one whose keys are not in the KV cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TypeAlias

from waggle.engine.backends.base import MultiStepOutput
from waggle.engine.constraint.grammar import State
from waggle.engine.request import Choice, Completion, Prompt, Tokens, Usage
from waggle.engine.speculation import MAX_DRAFT, MIN_DRAFT, NGramProposer, packed


class TokenSequence:
    """One request being decoded; subclasses differ in how they use the model's choices."""

    kind = ""
    """How tokens are requested: `choice` by a token mask, `free`, or `forced` with EOS banned."""

    def __init__(
        self, prompt: Prompt, eos: frozenset[int], proposer: NGramProposer | None = None
    ) -> None:
        """Start a sequence; without a proposer nothing is drafted for it."""
        self.prompt = prompt
        self.prefix_group = 0
        """A number shared by sequences with the same prefix."""
        self.slot = -1
        """Its KV slot while it runs."""
        self.cached = 0
        """Tokens after the prefix whose keys are in the KV cache."""
        self.pending: Tokens = prompt.tail
        self.asked: Sequence[int] = range(len(prompt.tail) - 1, len(prompt.tail))
        self.prepared = False
        """Whether its first pass is laid out."""
        self.in_flight = False
        """Whether a pass with this sequence has been launched but not yet read."""
        self.answer: list[int] = []
        self.choices: list[Choice] = []
        """The tokens that were sampled."""
        self.finish = ""
        self.steps = self.drafted = self.accepted = 0
        self._eos = eos
        self._proposer = proposer
        self._text = b"" if proposer is None else packed(prompt.tail)

    @property
    def undrafted(self) -> bool:
        """Whether every next token is the model's argmax and nothing is drafted."""
        return False

    @property
    def sampled(self) -> bool:
        """Whether its tokens are sampled."""
        return self.prompt.sampling is not None

    @property
    def positions(self) -> list[int]:
        """The positions in the answer of the tokens after the asked offsets."""
        first = len(self.answer) - self.asked[0]
        return [first + offset for offset in self.asked]

    def prepare(self) -> None:
        """Lay out the first pass."""
        raise NotImplementedError

    def launched(self) -> None:
        """Record that the pending tokens have been launched in a pass."""
        self.cached += len(self.pending)
        self.steps += 1
        self.in_flight = True

    def read(self, tokens: list[int], logprobs: list[float]) -> None:
        """Use the model's choice after each asked offset, and lay out the next pass.

        `logprobs` is empty unless the tokens were sampled.
        """
        raise NotImplementedError

    def decoded(self, result: MultiStepOutput) -> None:
        """Append the tokens decoded by several consecutive steps."""
        self._append(result.tokens)
        self.cached += len(result.tokens)
        self.steps += result.steps
        self.drafted += result.drafted
        self.accepted += len(result.tokens) - result.steps
        self.pending = self.answer[-1:]

    def _append(self, tokens: Tokens) -> None:
        """Append decided tokens, up to EOS or the maximum length."""
        if self.finish:
            return
        if not self.prompt.ignore_end and not self._eos.isdisjoint(tokens):
            stop = next(index for index, token in enumerate(tokens) if token in self._eos)
            tokens, self.finish = tokens[:stop], "stop"
        room = self.prompt.max_new_tokens - len(self.answer)
        self.answer.extend(tokens[:room])
        if len(tokens) >= room:
            self.finish = "length"
        if self._proposer is not None:
            self._text += packed(tokens)

    def _note(
        self, count: int, masks: Iterable[tuple[int, ...] | None], logprobs: list[float]
    ) -> None:
        """Record the first `count` choices of a pass, before their tokens are appended."""
        if logprobs:
            self.choices += map(Choice, self.positions[:count], masks, logprobs)

    def _verified(self, drafted: int, accepted: int) -> None:
        """Record how many draft tokens of the last pass were accepted; uncache the others."""
        self.drafted += drafted
        self.accepted += accepted
        self.cached -= drafted - accepted

    def completion(self, text: str) -> Completion:
        """Return the finished answer."""
        prompt = self.prompt
        usage = Usage(
            prompt_tokens=len(prompt.prefix) + len(prompt.tail),
            cached_tokens=len(prompt.prefix),
            completion_tokens=len(self.answer),
            model_steps=self.steps,
            drafted_tokens=self.drafted,
            accepted_tokens=self.accepted,
        )
        # A confirmed draft may extend past the end of the answer; of the choices there, keep EOS.
        end = len(self.answer) + (self.finish == "stop")
        choices = tuple(choice for choice in self.choices if choice.offset < end)
        return Completion(text, tuple(self.answer), self.finish, usage, choices)


class FreeSequence(TokenSequence):
    """Plain decoding, greedy or sampled, with verified drafts."""

    def __init__(
        self, prompt: Prompt, eos: frozenset[int], proposer: NGramProposer | None = None
    ) -> None:
        super().__init__(prompt, eos, proposer)
        self.kind = "forced" if prompt.ignore_end else "free"
        self._draft_limit = MAX_DRAFT

    @property
    def undrafted(self) -> bool:
        """Whether it is greedy and nothing is drafted for it."""
        return self._proposer is None and not self.sampled

    def prepare(self) -> None:
        """Lay out the prompt with a draft after it."""
        self._plan(self.prompt.tail)

    def read(self, tokens: list[int], logprobs: list[float]) -> None:
        """Keep the draft tokens that the model confirms, and its choice after them."""
        draft = self.pending[self.asked[0] + 1 :]
        pairs = enumerate(zip(draft, tokens, strict=False))
        accepted = next((i for i, (guess, token) in pairs if guess != token), len(draft))
        self._note(accepted + 1, repeat(None), logprobs)
        self._append(tokens[: accepted + 1])
        self._verified(len(draft), accepted)
        if accepted < len(draft):
            self._draft_limit = max(MIN_DRAFT, accepted)
        elif draft:
            self._draft_limit = min(2 * self._draft_limit, MAX_DRAFT)
        if not self.finish:
            self._plan(self.answer[-1:])

    def _plan(self, decided: Tokens) -> None:
        """Lay out decided tokens with a draft after them."""
        draft: list[int] = []
        if self._proposer is not None:
            room = self.prompt.max_new_tokens - len(self.answer) - 1
            draft = self._proposer.propose(self._text, min(self._draft_limit, room))
        self.pending = [*decided, *draft]
        self.asked = range(len(decided) - 1, len(self.pending))


_Choice: TypeAlias = tuple[State, int, tuple[int, ...]]
"""A choice of the grammar: its state, the guess (-1: none), and the tokens that the guess forces.
A plain tuple, since an answer has a dozen of them."""


class ConstrainedSequence(TokenSequence):
    """Decoding masked by a grammar, greedy or sampled.

    Forced tokens are appended without the model (jump-forward). A draft guesses choices and
    continues after them, so that one pass decides several; all after a wrong guess is dropped.
    """

    kind = "choice"

    def __init__(
        self, prompt: Prompt, eos: frozenset[int], proposer: NGramProposer | None = None
    ) -> None:
        super().__init__(prompt, eos, proposer)
        assert prompt.grammar is not None
        self._matcher = prompt.grammar
        self._choices: list[_Choice] = []
        self.masks: list[tuple[int, ...]] = []
        """The tokens allowed at each asked offset."""

    def prepare(self) -> None:
        """Append the tokens that the grammar forces first, and lay out the first choices."""
        state, forced = self._matcher.start()
        self._append(forced)
        self._continue(state, [*self.prompt.tail, *forced])

    def read(self, tokens: list[int], logprobs: list[float]) -> None:
        """Keep the correct guesses, take the choice that differs, and continue from there."""
        kept: list[int] = []
        choices, last = self._choices, len(self._choices) - 1
        for index, token in enumerate(tokens):
            state, guess, forced = choices[index]
            kept.append(token)
            if token != guess or index == last:
                break
            kept += forced
        first = self.asked[0]
        self._verified(len(self.pending) - 1 - first, self.asked[index] - first)
        state, forced = self._matcher.accept(state, token)
        self._note(index + 1, self.masks, logprobs)
        self._append([*kept, *forced])
        self._continue(state, [token, *forced])

    def _continue(self, state: State, decided: list[int]) -> None:
        if not state.edges and not self.finish:
            self.finish = "stop"
        if not self.finish:
            self._plan(state, decided)

    def _plan(self, state: State, pending: list[int]) -> None:
        """Lay out decided tokens and a draft after them, with every choice on the way."""
        matcher, proposer, first = self._matcher, self._proposer, len(pending)
        room = self.prompt.max_new_tokens - len(self.answer)
        choices: list[_Choice] = []
        masks, asked = [], []
        draft: list[int] = []
        while True:
            memo = matcher.memo(state)
            mask = memo.ahead.tokens
            masks.append(mask)
            asked.append(len(pending) - 1)
            drafted = len(pending) - first
            if proposer is not None and drafted < MAX_DRAFT and not (draft and draft[0] in mask):
                draft = proposer.propose(self._text + packed(pending[first:]), MAX_DRAFT, mask)
            if not draft or drafted >= MAX_DRAFT:
                choices.append((state, -1, ()))
                break
            guess = draft[0]
            after, forced = memo.accepted.get(guess) or matcher.accept(state, guess)
            choices.append((state, guess, forced))
            if not after.edges or drafted + 1 + len(forced) >= room:
                break
            taken = [guess, *forced]
            pending += taken
            draft = draft[len(taken) :] if draft[: len(taken)] == taken else []
            state = after
        self.pending, self.asked = pending, asked
        self.masks, self._choices = masks, choices
