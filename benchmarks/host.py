"""How much host time does a decision take, apart from the model?

    waggle bench engine --host-only

The engine works as in a real run, with a backend that answers immediately: grammars are bound and
followed, answers drafted, rows queued and packed. The backend's own time is subtracted. The rate is
an upper bound on the decisions per second of one process, however fast the device is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.engine import MODES, Mode
from benchmarks.workload import Ask, Setup, Sizes, Weights, draw, find_law, tokenizer_of
from waggle.engine.backends.base import MultiStepOutput, MultiStepRow, RowInput, Text, TokenFuture
from waggle.engine.backends.transformers import TransformersBackend
from waggle.engine.constraint.matcher import Matcher
from waggle.engine.engine import Engine
from waggle.models.load import freeze_loaded

USUAL = 0.7
"""Chance that a scripted answer takes the first option of a choice."""
STEPS = 16
"""Steps per multi-step decode, as on a GPU."""


class Script(NamedTuple):
    """The scripted answer of one row."""

    tokens: Sequence[int]
    tail: int
    """Number of tokens of the row's prompt after the prefix."""
    prefix: int


class Oracle(TransformersBackend):
    """A backend that replays scripted answers in place of a model, one per prompt tail."""

    asynchronous = verifies = True

    def __init__(
        self, scripts: Mapping[tuple[int, ...], Sequence[int]], drafts: bool = True
    ) -> None:
        super().__init__(SimpleNamespace(device="cpu"))
        self.seconds = 0.0
        """Processor time spent in the backend itself."""
        self.multi_step = not drafts
        self._scripts = scripts
        self._lengths = sorted({len(tail) for tail in scripts}, reverse=True)

    def decode_steps(
        self, rows: Sequence[MultiStepRow], ends: Sequence[int], history: Text | None
    ) -> list[MultiStepOutput]:
        """Return the next scripted tokens of every row."""
        start, said = time.process_time(), []
        for row in rows:
            script = self._caches[row.slot]
            count = min(STEPS, row.room)
            first = row.place + 1 - script.prefix - script.tail
            rest = [*script.tokens[first:][:count], *[0] * count][:count]
            if not row.forced:
                stop = next((at for at, token in enumerate(rest) if token in ends), len(rest))
                rest = rest[: stop + 1]
            said.append(MultiStepOutput(rest, len(rest), 0))
        self.seconds += time.process_time() - start
        return said

    def run(self, rows: Sequence[RowInput]) -> Any:
        """Return the next scripted token at each requested offset, in place of a hidden state."""
        begin, said = time.process_time(), []
        for slot, chunk, start, offsets, prefix in rows:
            if start == 0:
                self._caches[slot] = self._script(chunk, prefix)
            script = self._caches[slot]
            places = [start + offset + 1 - script.tail for offset in offsets]
            said += [script.tokens[p] if p < len(script.tokens) else 0 for p in places]
        self.seconds += time.process_time() - begin
        return np.array(said, dtype=np.int64)

    def argmax(self, hidden: Any, banned: Sequence[int] = ()) -> TokenFuture:
        """Return the scripted tokens."""
        return hidden.tolist  # type: ignore[no-any-return]

    def choose(self, hidden: Any, allowed: Sequence[tuple[int, ...]]) -> TokenFuture:
        """Return the scripted tokens where they are allowed, else the first allowed token."""
        pairs = zip(hidden.tolist(), allowed, strict=True)
        found = [token if token in tokens else tokens[0] for token, tokens in pairs]
        return lambda: found

    def _script(self, chunk: Sequence[int], prefix: Sequence[int]) -> Script:
        """Return the script of the tail that a first chunk begins with."""
        for length in self._lengths:
            script = self._scripts.get(tuple(chunk[:length]))
            if script is not None and len(chunk) >= length:
                return Script(script, length, len(prefix))
        raise KeyError("the oracle has no script for this prompt")


def recite(matcher: Matcher, random: Random, usual: float) -> list[int]:
    """Draw an answer of a grammar: the first option with probability `usual`, else a random one."""
    state, forced = matcher.start()
    answer = [*forced]
    while state.edges:
        allowed = matcher.mask(state)
        token = allowed[0] if random.random() < usual else random.choice(allowed)
        state, forced = matcher.accept(state, token)
        answer += [token, *forced]
    return answer


class HostRow(NamedTuple):
    """The host's cost per decision in one mode."""

    mode: str
    microseconds: float
    """Processor time of one core per decision."""
    decisions_per_s: float
    """Upper bound for one process."""
    steps: float
    """Model passes per decision with these answers."""


def bench_host(
    model: str = "smollm2-135m-instruct", sizes: Sizes | None = None, *, views: bool = False
) -> list[HostRow]:
    """Measure the host's work on the prompts of a model or a law, with randomly drawn answers."""
    from waggle.models.nano import tiny_random

    sizes = sizes or Sizes(batch=64)
    tiny, _ = tiny_random()
    tiny.config.max_position_embeddings = 1 << 20
    tokenizer = tokenizer_of(model)
    law = find_law(model) or (Weights(model) if views else None)
    setup = Setup(tiny, tokenizer, model, "cpu", sizes, *draw(tokenizer, law, sizes), forced=False)
    return [_measure(setup, mode) for mode in MODES]


def _measure(setup: Setup, mode: Mode) -> HostRow:
    """Decode with an oracle and measure the processor time of this process."""
    engine = Engine(setup.model, setup.tokenizer, max_rows=setup.sizes.batch)
    oracle = Oracle(_scripts(engine, [*setup.warm, *setup.work]), mode.speculate)
    engine.backend = oracle
    mode.decode(engine, setup, setup.warm)
    freeze_loaded()  # as laws do
    start = time.process_time() - oracle.seconds
    done = mode.decode(engine, setup, setup.work)
    each = (time.process_time() - oracle.seconds - start) / len(done)
    steps = sum(d.usage.model_steps for d in done) / len(done)
    return HostRow(mode.name, 1e6 * each, 1 / each, steps)


def _scripts(engine: Engine, asks: Sequence[Ask]) -> dict[tuple[int, ...], list[int]]:
    """Draw an answer for each prompt, followed by the end token."""
    end = min(engine.eos)
    return {
        ask.tail: [*recite(engine.matcher(ask.grammar), Random(number), USUAL), end]
        for number, ask in enumerate(asks)
    }
