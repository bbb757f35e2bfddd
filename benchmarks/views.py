"""Real views of the substrates, for measuring the engine on what users run: laws and backbones.

Views are those of episodes that the law's teacher plays on development seeds, in the law's own
canon order; of many, those whose length is nearest to the one asked for are taken, so that
`generate`, which pads to the longest, pads little. What is expected of a law's answer is what its
teacher would say, found while decoding is timed; nobody foretells a backbone that was taught
nothing, and its free answers have a forced length. Invariant: no prompt comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.setup import Ask, Setup, place
from waggle import plugins, shipped
from waggle.core.grammar import longest
from waggle.core.protocols import Case, Law, Request
from waggle.core.schema import View
from waggle.core.seeds import Split
from waggle.corpus.specimens import Listening
from waggle.laws.dialogue import Dialogue
from waggle.laws.foretell import Teacher
from waggle.laws.origin import Origin, origin
from waggle.laws.shipped import ADAPTER, is_folder
from waggle.laws.spelling import view_grammar
from waggle.runtime.sync import Engine

TASKS = {
    "silo": ("I-04", "I-09", "II-12", "II-16", "II-19", "III-22", "III-26", "III-30"),
    "agentsnet": ("coloring", "matching", "vertex_cover"),
    "swarmbench": ("pursuit", "synchronization", "foraging"),
}
"""What is played."""
SIZE = 16
ROUNDS = 9
SPARE = 2.0
"""Views that are looked at for each one taken."""
MOST = 40
"""Seeds after which no more episodes are played."""


class Weights(NamedTuple):
    """Where the weights of a law are: a backbone, an adapter on it if any, and its origin."""

    model: str
    adapter: str | None
    said: Origin
    taught: bool = True


def untaught(model: str) -> Weights:
    """Return a backbone as its own law, which was taught nothing."""
    return Weights(model, None, Origin(), taught=False)


def find(name: str, adapter: str | None) -> Weights | None:
    """Return the weights of a law by its name or folder, or None for what is no law."""
    if adapter is not None:
        return Weights(name, adapter, origin(adapter))
    folder = Path(name).expanduser()
    if name in shipped.NAMES and shipped.present(name):
        folder = shipped.folder(name)
        shipped.verify(folder)
    if not is_folder(str(folder)):
        return None
    said = origin(str(folder))
    if (folder / ADAPTER).is_file():
        return Weights(said.backbone, str(folder), said)
    return Weights(str(folder), None, said)


def prepare(
    law: Weights,
    device: str,
    dtype: str,
    sizes: tuple[int, int],
    tail: int,
    new_tokens: int,
) -> Setup:
    """Load a law and gather views; `sizes` are rows per batch and batches."""
    from waggle.models import weights

    where, kind = place(device, dtype)
    model, tokenizer = weights.load(law.model, where, kind, law.adapter)
    batch, repeats = sizes
    asks = gather(tokenizer, law, (repeats + 3) * batch, tail)
    timed, warm = asks[: repeats * batch], asks[repeats * batch : (repeats + 2) * batch]
    fresh = asks[(repeats + 2) * batch :]
    return Setup(
        model, tokenizer, timed, warm, fresh, batch, new_tokens, where,
        forced=not law.taught,
    )  # fmt: skip


def gather(tokenizer: Any, law: Weights, count: int, tail: int) -> list[Ask]:
    """Return prompts of views, those whose own part has about `tail` tokens, mixed."""
    name = law.said.teacher if law.said.teacher in plugins.names("law") else "expert"
    teacher = plugins.get_law(name)
    dialogue, found = Dialogue(tokenizer), {}
    near = 0
    for views in _played(teacher, law.said.order):
        for view, (shared, own) in zip(
            views, dialogue.tokens([Request(view) for view in views]), strict=True
        ):
            if (shared, tuple(own)) not in found:
                near += abs(len(own) - tail) <= tail // 3
                found[shared, tuple(own)] = view
        if near >= SPARE * count:
            break
    nearest = sorted(found, key=lambda key: (abs(len(key[1]) - tail), key))[:count]
    mixed = sorted(nearest, key=lambda key: hash(key[1]))
    foretold = Teacher(teacher, dialogue).of
    return [
        Ask(own, shared, partial(view_grammar, found[shared, own]),
            partial(longest, found[shared, own]),
            partial(foretold, found[shared, own]) if law.taught else None)
        for shared, own in mixed
    ]  # fmt: skip


def _played(teacher: Law, order: Any) -> Iterator[list[View]]:
    """Play episodes and yield the views of each."""
    for seed in range(MOST):
        for substrate, tasks in TASKS.items():
            world = plugins.get_substrate(substrate)
            for task in tasks:
                case = Case(substrate, task, SIZE, Split.DEVELOPMENT.value.start + seed, ROUNDS)
                heard = Listening(teacher)
                Engine(world.open(case), heard, case, order=order).play()
                yield [view for view, _ in heard.heard]
