"""The decoding engine: decodes prompts in shared batches, greedily or by sampling.

Sequences enter free KV slots as others leave (continuous batching), so small swarms and parallel
episodes fill one machine; callers in several threads share the same batches. Each prompt is decoded
freely or constrained by a grammar. Invariant: in float32 the answer to a prompt equals that of
plain greedy decoding, masked by its grammar if it has one, whatever else is in its batch; the
answer to a sampled prompt also depends on its key.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from waggle.core.errors import ConfigError, WaggleError
from waggle.engine.backends.base import Backend, MultiStepRow, RowInput, TokenFuture
from waggle.engine.backends.lean import LeanBackend
from waggle.engine.backends.transformers import TransformersBackend
from waggle.engine.constraint.grammar import Grammar, SharedStates
from waggle.engine.constraint.matcher import Make, Matcher
from waggle.engine.constraint.vocabulary import Vocabulary, eos_tokens
from waggle.engine.memory import collect_sometimes, collector_paused, is_out_of_memory
from waggle.engine.model.config import supports
from waggle.engine.request import Completion, Prompt
from waggle.engine.sampling import DrawFuture, SampledTokens, own_columns
from waggle.engine.scheduler import Scheduler
from waggle.engine.sequence import ConstrainedSequence, FreeSequence, TokenSequence
from waggle.engine.speculation import NGramProposer, RecentAnswers


class NotNumbers(WaggleError):
    """Raised when the logits of a model are not numbers."""


class _TokenQuery(NamedTuple):
    """Sequences of one pass whose next tokens are requested in the same way."""

    sequences: list[TokenSequence]
    future: TokenFuture | DrawFuture


class Engine:
    """A batched decoder of prompts that share prefixes.

    Args:
        model: a transformers causal language model in evaluation mode.
        tokenizer: its tokenizer.
        max_rows: number of KV slots, hence the largest batch; further prompts wait.
        reuse_prefix: run shared prefixes once (off: every prompt is run in full).
        speculate: verify drafts (off: one token or one choice per pass).
        graphs: capture CUDA graphs for small passes.
        int8: quantise the weights and inputs of the blocks' matrix products to 8 bits, on a CPU.
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
        int8: bool = False,
    ) -> None:
        if max_rows < 1:
            raise ConfigError("max_rows must be at least 1; give the engine one cache slot")
        self.tokenizer = tokenizer
        self.eos = eos_tokens(model, tokenizer)
        self.context = int(getattr(model.config, "max_position_embeddings", 1 << 30))
        # An unmerged adapter changes layers from within, so only the model's own code can run it.
        lean = supports(model.config) and not hasattr(model, "peft_config")
        if int8 and not lean:
            raise ConfigError("int8 needs a model that the engine runs itself; use dtype auto")
        self.backend: Backend = (
            LeanBackend(model, max_rows, graphs, int8) if lean else TransformersBackend(model)
        )
        self.reuse_prefix = reuse_prefix
        self.speculate = speculate
        self.passes = 0
        """Forward passes through the model so far."""
        self._steps = 0
        self._scheduler = Scheduler(max_rows)
        self._in_flight: deque[list[_TokenQuery]] = deque()
        """Passes that were launched but not yet read, oldest first."""
        self._driver = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Clear the vocabulary's caches, the shared grammar states and the recent answers."""
        self.vocabulary = Vocabulary(self.tokenizer)
        self._shared_states = SharedStates()
        self._answers = RecentAnswers()

    def refresh(self, model: Any) -> None:
        """Load the current weights of a model, for instance after an optimizer step.

        It is the model that the engine was built for, or one of the same shape in any dtype and on
        any device. Weights are copied in place and captured steps stay valid. Grammar states and
        recent answers are kept, too: drafts never change an answer.

        Raises:
            ConfigError: while prompts are being decoded, and for weights that cannot be loaded.
        """
        with self._driver:
            if not self._scheduler.idle:
                raise ConfigError("prompts are being decoded; refresh the engine between two calls")
            self.backend.refresh(model)

    def matcher(self, grammar: Grammar | Make) -> Matcher:
        """Bind a grammar, or a callable that builds it on demand, to this engine's tokenizer."""
        return Matcher(grammar, self.vocabulary, min(self.eos, default=-1), self._shared_states)

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Decode every prompt; safe to call from several threads, which then share batches.

        Raises:
            ConfigError: for a prompt that is empty or too long for the model.
            NotNumbers: if the model's logits are not numbers.
        """
        with collector_paused():
            submission = self._scheduler.submit([self._sequence(prompt) for prompt in prompts])
            while not submission.done:
                with self._driver:  # the lock's holder advances the sequences of all callers
                    if not submission.done:
                        self._guarded_step()
        return submission.result()

    def _sequence(self, prompt: Prompt) -> TokenSequence:
        """Return a new sequence, with a proposer unless the device drafts for it.

        The device drafts for free greedy sequences only.
        """
        prompt = prompt if self.reuse_prefix else prompt.unsplit()
        prompt.check(self.context)
        speculate = self.speculate and self.backend.verifies
        proposer = NGramProposer(self._answers) if speculate else None
        if prompt.grammar is not None:
            return ConstrainedSequence(prompt, self.eos, proposer)
        on_device = self.backend.multi_step and prompt.sampling is None
        return FreeSequence(prompt, self.eos, None if on_device else proposer)

    def _step(self) -> None:
        """Admit waiting sequences, launch those on the host, read the oldest pass.

        An asynchronous device computes one pass while the host reads the other.
        """
        self._scheduler.admit(self.backend)
        launched = self._launch(self._scheduler.on_host())
        overlap = launched and self.backend.asynchronous
        if self._in_flight and self.backend.asynchronous:
            self._prepare(self._scheduler.upcoming(self.backend))
        if len(self._in_flight) > overlap:
            self._read(self._in_flight.popleft())
        self._scheduler.retire(self.backend, self._complete)

    def _launch(self, sequences: list[TokenSequence]) -> bool:
        """Launch a pass, or decode several steps; return whether a pass was launched.

        Several steps are decoded only if every sequence is undrafted; otherwise all share a pass.
        """
        if self.backend.multi_step and all(s.undrafted and s.cached for s in sequences):
            if sequences and not self._in_flight:
                self._decode(sequences)
            return False
        self._prepare(sequences)
        ready = [sequence for sequence in sequences if not sequence.finish]
        if ready:
            self._in_flight.append(self._run(ready))
        return bool(ready)

    def _prepare(self, sequences: Iterable[TokenSequence]) -> None:
        """Lay out the first pass of sequences that have not been prepared."""
        for sequence in sequences:
            if not sequence.prepared:
                sequence.prepared = True
                sequence.prepare()

    def _run(self, sequences: list[TokenSequence]) -> list[_TokenQuery]:
        """Run the pending tokens of sequences and request the next tokens, grouped by `_way`."""
        sequences.sort(key=_way)
        hidden = self.backend.run(
            [RowInput(s.slot, s.pending, s.cached, s.asked, s.prompt.prefix) for s in sequences]
        )
        self.passes += 1
        for sequence in sequences:
            sequence.launched()
        asked, first = [], 0
        for _, alike in groupby(sequences, key=_way):
            group = list(alike)
            last = first + sum(len(sequence.asked) for sequence in group)
            asked.append(_TokenQuery(group, self._ask(hidden[first:last], group)))
            first = last
        return asked

    def _ask(self, hidden: Any, sequences: list[TokenSequence]) -> TokenFuture | DrawFuture:
        """Request from the LM head the next tokens of sequences with the same `_way`."""
        kind, sampled = _way(sequences[0])
        masks = [m for s in sequences if isinstance(s, ConstrainedSequence) for m in s.masks]
        banned = sorted(self.eos) if kind == "forced" else []
        if sampled:
            samplings = [s.prompt.sampling for s in sequences if s.prompt.sampling is not None]
            own = own_columns(samplings, [sequence.positions for sequence in sequences])
            return self.backend.sample(hidden, own, masks or None, banned)
        return self.backend.choose(hidden, masks) if masks else self.backend.argmax(hidden, banned)

    def _read(self, batch: list[_TokenQuery]) -> None:
        """Give each sequence of a pass the model's choices, waiting for them if necessary."""
        for asked in batch:
            found, first = asked.future(), 0
            tokens, logprobs = found if isinstance(found, SampledTokens) else (found, [])
            _checked(tokens)
            for sequence in asked.sequences:
                last = first + len(sequence.asked)
                sequence.in_flight = False
                sequence.read(tokens[first:last], logprobs[first:last])
                first = last

    def _decode(self, sequences: list[TokenSequence]) -> None:
        """Let undrafted sequences decode several tokens before the host reads them."""
        rows = [
            MultiStepRow(
                s.slot,
                s.pending[0],
                len(s.prompt.prefix) + s.cached,
                s.prompt.max_new_tokens - len(s.answer),
                s.prompt.ignore_end,
            )
            for s in sequences
        ]
        history = self._answers.text() if self.speculate else None
        results = self.backend.decode_steps(rows, sorted(self.eos), history)
        self.passes += max(result.steps for result in results)
        for sequence, result in zip(sequences, results, strict=True):
            _checked(result.tokens)
            sequence.decoded(result)

    def _complete(self, sequence: TokenSequence) -> Completion:
        """Return the completion of a finished sequence, and remember its answer."""
        self._answers.add(sequence.prompt.tail, sequence.answer)
        if sequence.prompt.grammar is not None:
            sequence.prompt.grammar.release()
        return sequence.completion(self.vocabulary.text(sequence.answer))

    def _guarded_step(self) -> None:
        """Take a step; after an out-of-memory error, restart with half as many sequences.

        Any other error, including an interrupt, is raised in every caller; the engine stays usable.
        """
        self._steps += 1
        collect_sometimes(self._steps)
        try:
            self._step()
            return
        except BaseException as error:
            failure, short = error, is_out_of_memory(error)
        if short:  # tracebacks keep the objects of the failed work alive
            failure.__traceback__ = failure.__context__ = None
        self._in_flight.clear()
        if not (short and self._scheduler.retry(self.backend, self._renewed)):
            self._scheduler.abort(self.backend, failure)
        self.backend.forget()

    def _renewed(self, sequence: TokenSequence) -> TokenSequence:
        """Return a fresh copy of a sequence, as it was before its first pass."""
        fresh = self._sequence(sequence.prompt)
        fresh.prefix_group = sequence.prefix_group
        return fresh


def _way(sequence: TokenSequence) -> tuple[str, bool]:
    """Return how a sequence's next tokens are requested: its kind and whether it is sampled."""
    return sequence.kind, sequence.sampled


def _checked(tokens: list[int]) -> list[int]:
    """Return the model's tokens if they are valid.

    Raises:
        NotNumbers: if a token is negative, because its logits were not numbers.
    """
    if tokens and min(tokens) < 0:
        raise NotNumbers(
            "the model's output is not a number: its weights are broken, or the device computes "
            "wrongly; try another device, or WAGGLE_KERNELS=plain"
        )
    return tokens
