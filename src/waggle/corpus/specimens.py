"""Texts that the tokenizer of `nano` is trained on: prompts and records as a law meets them.

Short training-seed episodes of the training tasks under the expert, most in canonical order, and
some situations with made-up vocabularies, so that the JSON skeleton becomes few tokens while names
stay spelled out. Invariant: no transfer task, and the same texts at every call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from waggle import plugins
from waggle.core import prompt
from waggle.core.canon import encode_decision
from waggle.core.order import canonical
from waggle.core.protocols import Case, Decode, Law, Request
from waggle.core.schema import Contract, Decision, View
from waggle.corpus.views.frames import made_up_frame
from waggle.corpus.views.native import TRAINING, open_case, training_tasks
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import SITUATIONS, make
from waggle.runtime.sync import Engine

SEED = 3
"""Training seed of the episodes."""
SIZE = 8
ROUNDS = {"swarmbench": 60}
"""Shorter episodes where the task's own would crowd out the others."""
CONTRACT_WEIGHT = 60
"""How often the text of a training contract counts; it stands in every prompt of its task."""
MADE_UP = 15
"""Bundles with made-up vocabularies."""


class Listening:
    """A law that keeps every view it is shown, with its decision."""

    def __init__(self, law: Law) -> None:
        self.name = law.name
        self._law = law
        self.heard: list[tuple[View, Decision]] = []

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        """Decide as the law does."""
        decodes = self._law.decide(requests)
        for request, decode in zip(requests, decodes, strict=True):
            assert isinstance(decode.output, Decision)
            self.heard.append((request.view, decode.output))
        return decodes


def specimens() -> Iterator[str]:
    """Yield prompts and records."""
    seen: set[Contract] = set()
    for view, decision in (*_native(), *_made_up()):
        if view.contract not in seen:
            seen.add(view.contract)
            known = view.contract.task.startswith(TRAINING)
            yield from [prompt.prefix(view.contract)] * (CONTRACT_WEIGHT if known else 1)
        yield prompt.tail(view)
        yield encode_decision(decision).decode()


def _native() -> Iterator[tuple[View, Decision]]:
    for number, task in enumerate(training_tasks(TRAINING)):
        for shock in (False, True):
            # One swarm in four shows its views in the paper's order, under its own names.
            orders = ("canonical", "canonical", "shuffled") if shock else ("canonical",)
            order = orders[number % len(orders)]
            case = Case(
                task.substrate, task.task, SIZE, SEED + shock, ROUNDS.get(task.substrate),
                shock=shock,
            )  # fmt: skip
            case, world = open_case(case)
            law = Listening(plugins.get_law("expert"))
            Engine(world, law, case, order=order).play()  # type: ignore[arg-type]
            yield from law.heard


def _made_up() -> Iterator[tuple[View, Decision]]:
    expert = plugins.get_law("expert")
    for bundle in range(MADE_UP):
        for situation in SITUATIONS:
            draw = Draw(SEED, "specimen", bundle, situation)
            frame = made_up_frame(draw, "spatial" if bundle % 2 else "ports")
            view, _ = canonical(make(situation, frame, draw))
            (decode,) = expert.decide([Request(view)])
            assert isinstance(decode.output, Decision)
            yield view, decode.output
