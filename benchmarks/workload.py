"""The prompts of decoding benchmarks, synthetic or views of real episodes, and their models.

Synthetic prompts need nothing but the engine: a long shared prefix, a different tail for each node
and a grammar of answers of about eighty tokens. A law is measured on views of episodes that an
expert plays on development seeds. Prompts are seeded and never repeat, since the engine drafts from
its earlier answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from waggle.core.errors import ConfigError
from waggle.core.forms import GrammarNode, IntRange
from waggle.engine.constraint.grammar import Grammar, SharedStates, chain, choice
from waggle.engine.constraint.vocabulary import eos_tokens

INSTRUCTION = (
    "You are one anonymous member of a changing local network. Use only the private proposal, "
    "private evidence, current commitment, and semantic traces on incident channels. Return one "
    "canonical JSON decision. Continue useful private work unless local evidence justifies a "
    "deposit, relay, challenge, or commitment. Every bin is 0 to 4 and a time to live is 1 to 8. "
    'A decision looks like {"task_action":"MOVE","response":null,"deposits":[{"channel":"h3",'
    '"claim":"z2","novelty":1,"support":2,"conflict":0,"ttl":5}],"commit":{"claim":"z2",'
    '"confidence_bin":3}}. A relay never claims more than the trace it repeats, and lives one '
    "round less. A wait writes nothing, commits nothing and answers nothing. "
)
LONGEST = 256
"""Maximum number of tokens of an answer to a synthetic prompt."""
ACTIONS = ("MOVE", "HOLD", "GRAB", "WAIT")
WARM_UP = 9_999
"""Seed of the synthetic warm-up prompts."""

TASKS = {
    "silo": ("I-04", "I-09", "II-12", "II-16", "II-19", "III-22", "III-26", "III-30"),
    "agentsnet": ("coloring", "matching", "vertex_cover"),
    "swarmbench": ("pursuit", "synchronization", "foraging"),
}
"""Tasks whose views are decoded."""
NODES, ROUNDS, EPISODES = 16, 9, 40
"""Agents and rounds of an episode, and the maximum number of episodes per task."""
SPARE = 2.0
"""Views of about the requested length that are collected for each view that is decoded."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One prompt in tokens, with a callable that makes its grammar while decoding is timed."""

    tail: tuple[int, ...]
    prefix: tuple[int, ...]
    grammar: Callable[[SharedStates | None], Grammar]
    longest: Callable[[], int]
    """Returns the maximum number of tokens of a constrained answer."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amount of work: batch size, number of batches and token counts."""

    batch: int = 16
    repeats: int = 3
    """Number of timed batches."""
    prefix_tokens: int = 400
    """Shared prefix tokens of synthetic prompts."""
    tail_tokens: int = 300
    """Approximate number of tokens of a prompt after the shared prefix."""
    new_tokens: int = 80
    """Tokens of a free answer; for a law, the maximum."""

    def __post_init__(self) -> None:
        """Raise a ConfigError for sizes below 1."""
        if min(self.batch, self.repeats, self.prefix_tokens, self.tail_tokens, self.new_tokens) < 1:
            raise ConfigError("batch, repeats and token counts must be at least 1")


@dataclass(slots=True)
class Setup:
    """A model and the prompts it decodes."""

    model: Any
    tokenizer: Any
    name: str
    device: str
    sizes: Sizes
    work: list[Ask]
    """The timed prompts."""
    warm: list[Ask]
    """Two warm-up batches."""
    fresh: list[Ask]
    """One batch for measuring prefill and decode separately."""
    forced: bool
    """Whether free answers have exactly `new_tokens` tokens; those of a law end by themselves."""

    @property
    def longest(self) -> int:
        """Number of tokens of the longest prompt."""
        asks = (*self.work, *self.warm, *self.fresh)
        return max(len(ask.prefix) + len(ask.tail) for ask in asks)

    def wait(self) -> None:
        """Wait for the device."""
        if self.device.startswith("cuda"):
            torch: Any = import_module("torch")
            torch.cuda.synchronize()


Answers = list[tuple[int, ...]]
Decode = Callable[[Sequence[Ask], int], Answers]
"""Decodes one batch of prompts, to at most the given number of tokens each."""


class Contender(NamedTuple):
    """A library in one configuration."""

    title: str
    open: Callable[[], AbstractContextManager[Decode]]
    """Opens the library for decoding; its memory is freed on exit."""


def cut(setup: Setup, row: Sequence[int]) -> tuple[int, ...]:
    """Return an answer up to its end token, or whole if answers have a forced length."""
    if setup.forced:
        return tuple(row)
    ends = eos_tokens(setup.model, setup.tokenizer)
    stop = next((i for i, token in enumerate(row) if token in ends), len(row))
    return tuple(row[:stop])


class Weights(NamedTuple):
    """The weights of a law: a backbone, and an adapter for it if there is one."""

    model: str
    adapter: str | None = None
    order: Any = "shuffled"
    taught: bool = True


def prepare(
    name: str, sizes: Sizes, device: str = "auto", dtype: str = "auto", *, views: bool = False
) -> Setup:
    """Load a law, a model or a shape with random weights, and draw its prompts."""
    from benchmarks.shapes import SHAPES, shaped
    from waggle.models import load

    where = load.pick_device(device)
    kind = load.pick_dtype(dtype, where)
    law = find_law(name) or (Weights(name, taught=False) if views else None)
    if name in SHAPES:
        tokenizer = tokenizer_of(name)
        model = shaped(name, where, kind, tokenizer)
    else:
        chosen = law or Weights(name)
        dtype = str(kind).removeprefix("torch.")
        model, tokenizer = load.load(chosen.model, where, dtype, chosen.adapter)
    forced = law is None or not law.taught
    return Setup(model, tokenizer, name, where, sizes, *draw(tokenizer, law, sizes), forced)


def tokenizer_of(name: str) -> Any:
    """Return the tokenizer of a law or a model; shapes get one trained on synthetic prompts."""
    from benchmarks.shapes import SHAPES
    from waggle.models import load
    from waggle.models.nano import byte_tokenizer

    if name in SHAPES:
        return byte_tokenizer(texts(), 2048)
    law = find_law(name)
    return load.load_tokenizer(law.model if law else name)


def find_law(name: str) -> Weights | None:
    """Return the weights of a law by its name or folder; None if it is not a law."""
    from waggle import shipped
    from waggle.laws.origin import origin
    from waggle.laws.shipped import ADAPTER, is_folder

    folder = Path(name).expanduser()
    if shipped.present(name):
        folder = shipped.folder(name)
        shipped.verify(folder)
    if not is_folder(str(folder)):
        return None
    said = origin(str(folder))
    if (folder / ADAPTER).is_file():
        return Weights(said.backbone, str(folder), said.order)
    return Weights(str(folder), None, said.order)


def draw(
    tokenizer: Any, law: Weights | None, sizes: Sizes
) -> tuple[list[Ask], list[Ask], list[Ask]]:
    """Return the timed prompts, two warm-up batches, and one more batch."""
    batch, timed = sizes.batch, sizes.batch * sizes.repeats
    if law is None:
        records = fit_records(tokenizer, sizes.tail_tokens)
        made = partial(_made_up, tokenizer, shared_prefix(tokenizer, sizes.prefix_tokens), records)
        return made(timed, 0), made(2 * batch, WARM_UP), made(batch, WARM_UP + 1)
    asks = views_of_episodes(tokenizer, law.order, timed + 3 * batch, sizes.tail_tokens)
    return asks[:timed], asks[timed : timed + 2 * batch], asks[timed + 2 * batch :]


# Views of episodes.


def views_of_episodes(tokenizer: Any, order: Any, count: int, tail: int) -> list[Ask]:
    """Return distinct prompts of views whose tails have about `tail` tokens, in mixed order.

    Lengths are similar because `generate` pads to the longest prompt.
    """
    from waggle.core.grammar import longest
    from waggle.core.protocols import Request
    from waggle.laws.dialogue import Dialogue
    from waggle.laws.spelling import view_grammar

    dialogue, found, near = Dialogue(tokenizer), {}, 0
    for views in _played(order):
        prompts = dialogue.tokens([Request(view) for view in views])
        for view, (shared, own) in zip(views, prompts, strict=True):
            if (shared, tuple(own)) not in found:
                near += abs(len(own) - tail) <= tail // 3
                found[shared, tuple(own)] = view
        if near >= SPARE * count:
            break
    nearest = sorted(found, key=lambda key: (abs(len(key[1]) - tail), key))[:count]
    if len(nearest) < count:
        raise ConfigError(f"only {len(nearest)} different views; lower --batch or --repeats")
    mixed = sorted(nearest, key=lambda key: hash(key[1]))
    return [
        Ask(key[1], key[0], partial(view_grammar, found[key]), partial(longest, found[key]))
        for key in mixed
    ]


def _played(order: Any) -> Iterator[list[Any]]:
    """Play episodes of every task with the expert law, and yield the views of each."""
    from waggle import plugins
    from waggle.core.protocols import Case
    from waggle.core.seeds import Split
    from waggle.corpus.harvest import Listener
    from waggle.runtime.sync import Engine

    expert = plugins.get_law("expert")
    for seed in range(EPISODES):
        for substrate, tasks in TASKS.items():
            for task in tasks:
                case = Case(substrate, task, NODES, Split.DEVELOPMENT.start + seed, ROUNDS)
                law = Listener(expert)
                world = plugins.get_substrate(substrate).open(case)
                Engine(world, law, case, order=order).play()
                yield [view for view, _ in law.pairs]


# Synthetic prompts.


@dataclass(frozen=True, slots=True)
class Task:
    """The tail of a synthetic prompt, and the handles and claims its answers may name."""

    tail: str
    handles: tuple[str, ...]
    claims: tuple[str, ...]


def shared_prefix(tokenizer: Any, tokens: int) -> tuple[int, ...]:
    """Return a system turn of exactly `tokens` tokens."""
    text = "<|im_start|>system\n" + INSTRUCTION
    while len(encode(tokenizer, text)) < tokens:
        text += INSTRUCTION
    return encode(tokenizer, text)[:tokens]


def tasks(count: int, records: int, seed: int = 0) -> list[Task]:
    """Return synthetic tasks whose views have `records` traces each, give or take one."""
    random = Random(seed)
    return [_task(random, records + random.choice((-1, 0, 0, 1))) for _ in range(count)]


def fit_records(tokenizer: Any, tokens: int) -> int:
    """Return the number of traces that gives a tail of about `tokens` tokens."""
    one, nine = (len(encode(tokenizer, _task(Random(1), n).tail)) for n in (1, 9))
    return max(1, round(1 + (tokens - one) * 8 / (nine - one)))


def named(handles: Sequence[str], claims: Sequence[str], _: SharedStates | None = None) -> Grammar:
    """Return the grammar of answers that name the given handles and claims."""
    return Grammar(decision_grammar(handles, claims))


def decision_grammar(handles: Sequence[str], claims: Sequence[str]) -> GrammarNode:
    """Return the grammar of decisions with one deposit and one commitment, about eighty tokens."""
    return chain(
        '{"task_action":"', choice(*ACTIONS), '","response":null,"deposits":[{"channel":"',
        choice(*handles), '","claim":"', choice(*claims), '","novelty":', IntRange(0, 4),
        ',"support":', IntRange(0, 4), ',"conflict":', IntRange(0, 4), ',"ttl":', IntRange(1, 8),
        '}],"commit":{"claim":"', choice(*claims), '","confidence_bin":', IntRange(0, 4),
        '},"execution_intent":"', choice("PRIVATE", "FIELD"), '"}',
    )  # fmt: skip


def encode(tokenizer: Any, text: str) -> tuple[int, ...]:
    """Encode without adding special tokens; special tokens in the text are recognised."""
    return tuple(tokenizer.encode(text, add_special_tokens=False))


def accepts(grammar: Grammar, text: str) -> bool:
    """Return whether a text is one of the strings of a grammar."""
    state = grammar.advance(grammar.start(), text.encode())
    return state is not None and state.accepting


def texts(count: int = 200) -> list[str]:
    """Return synthetic prompts as text, to train a small tokenizer on."""
    return [INSTRUCTION, *(task.tail for task in tasks(count, 6, seed=3))]


def _made_up(
    tokenizer: Any, prefix: tuple[int, ...], records: int, count: int, seed: int
) -> list[Ask]:
    return [
        Ask(
            encode(tokenizer, task.tail),
            prefix,
            partial(named, task.handles, task.claims),
            lambda: LONGEST,
        )
        for task in tasks(count, records, seed)
    ]


def _task(random: Random, records: int) -> Task:
    handles = sorted(random.sample([f"h{i}" for i in range(1, 30)], 4))
    claims = sorted(random.sample([f"z{i}" for i in range(1, 30)], 3))
    rows = [_trace(random, random.choice(handles), random.choice(claims)) for _ in range(records)]
    tail = (
        '\n<|im_start|>user\nView: {"private":{"lot":' + str(random.randrange(16))
        + '},"proposal":{"action":"MOVE","claim":"' + claims[0] + '"},"traces":['
        + ",".join(rows) + '],"commitment":null,"budget":3}<|im_end|>\n<|im_start|>assistant\n'
    )  # fmt: skip
    return Task(tail, tuple(handles), tuple(claims))


def _trace(random: Random, handle: str, claim: str) -> str:
    novelty, support, conflict = (random.randrange(5) for _ in range(3))
    return (
        f'{{"channel":"{handle}","claim":"{claim}","novelty":{novelty},"support":{support},'
        f'"conflict":{conflict},"ttl":{random.randint(1, 8)}}}'
    )
