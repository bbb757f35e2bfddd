"""The ways in which a workload is decoded when the engine is measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from benchmarks.setup import Ask, Setup
from waggle.engine.constraint.matcher import Constraint
from waggle.engine.engine import Engine
from waggle.engine.request import Completion, Prompt

Decode = Callable[[Engine, Setup, list[Ask]], list[Completion]]


def bind(engine: Engine, ask: Ask) -> Constraint:
    """Bind the grammar of a prompt, to be made when it is needed."""
    return engine.constraint(ask.grammar)


def free(engine: Engine, setup: Setup, work: list[Ask], expected: bool = False) -> list[Completion]:
    """Decode freely, the grammars' forced tokens as drafts, or what is expected."""
    return engine.generate(
        [
            Prompt(
                tail=ask.tail,
                prefix=ask.prefix,
                skeleton=bind(engine, ask),
                draft=ask.draft() if expected and ask.draft else (),
                max_new_tokens=setup.new_tokens,
                ignore_end=setup.forced,
            )
            for ask in work
        ]
    )


def constrained(
    engine: Engine, setup: Setup, work: list[Ask], expected: bool = False
) -> list[Completion]:
    """Decode within the grammars."""
    prompts = []
    for ask in work:
        bound, room = bind(engine, ask), ask.room()
        draft = ask.draft() if expected and ask.draft else ()
        prompts.append(Prompt(ask.tail, ask.prefix, bound, draft=draft, max_new_tokens=room))
    return engine.generate(prompts)


TEACHER = "the law's teacher, or others where those pay"


class Mode(NamedTuple):
    """A way of decoding."""

    name: str
    decode: Decode
    drafts: str = "grammar and earlier answers"
    """Where drafts come from; nothing where none are made."""

    @property
    def speculate(self) -> bool:
        """Whether there are any."""
        return bool(self.drafts)


def modes(setup: Setup) -> list[Mode]:
    """Return the ways in which a workload can be decoded; `free` and `constrained` as laws do."""
    undrafted = Mode("free, no drafts", free, "")
    if setup.work[0].draft is None:
        return [undrafted, Mode("free", free), Mode("constrained", constrained)]
    return [
        undrafted,
        Mode("free, no teacher", free),
        Mode("free", partial(free, expected=True), TEACHER),
        Mode("constrained, no teacher", constrained),
        Mode("constrained", partial(constrained, expected=True), TEACHER),
    ]
