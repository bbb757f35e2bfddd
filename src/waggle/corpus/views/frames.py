"""Frames: the task side of a situation (contract, private content, proposal, facts).

A frame is either cut from a native view of a training task, or made up: random task and action
vocabularies, so that a law learns to read the list it is given. Transfer tasks never give one
(architecture, section 5). Two shapes exist, as in the two training substrates: `spatial` (native
actions, directions, readiness required) and `ports` (an answering action, coverage, port facts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from waggle.core import keys
from waggle.core.schema import (
    CHANNEL_ARGUMENT,
    WAIT,
    Contract,
    Fact,
    Json,
    View,
    action_argument,
)
from waggle.corpus.views import words as vocabulary
from waggle.corpus.views.rng import Draw

Shape: TypeAlias = Literal["spatial", "ports"]

_SYLLABLES = (
    "ba", "do", "ke", "li", "mo", "nu", "pra", "qui", "ro", "sta", "tem", "vul", "wex", "yor",
    "zan", "gri", "hol", "fen", "cas", "dri",
)  # fmt: skip
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_GOALS = (
    "Bring the {a} to the {b} that the evidence supports.",
    "Agree locally on which {a} is {b}, and act on it.",
    "Keep working on the {a}; commit to a {b} only when it is ready.",
    "Find the present {a}. Old reports of the {b} may be wrong.",
    "Combine what you hold about the {a} with what arrives about the {b}.",
    "Report the {a} of all {b} pieces you can account for.",
)
_KEYS = ("near", "load", "signal", "phase", "texture", "window", "notes", "heat", "trail", "stock")
_PORT_FACTS = ("offer", "sent", "heard", "quiet", "gain", "queue")
_CLAIM_FACTS = ("age", "weight", "seen", "order")


class Frame(NamedTuple):
    """Everything of a view that is task content."""

    contract: Contract
    observation: Mapping[str, Json]
    action: str
    """A legal private proposal that is neither a wait nor the answer."""
    response: str | None
    """The text a private answer would have, where the contract has an answering action."""
    provisional: bool
    """Whether commitments may be provisional (coverage is shown)."""
    pointed: bool
    """Whether evidence and traces carry directions."""
    ports: Sequence[Mapping[str, Fact]]
    """Samples of per-port facts."""
    claims: Sequence[Mapping[str, Fact]]
    """Samples of per-claim facts; empty where the task shows none."""


def native_frame(view: View, draw: Draw) -> Frame | None:
    """Cut the frame out of a native view; None where it offers nothing to do but wait."""
    contract = view.contract
    free = [a for a in contract.actions if a not in (WAIT, contract.response)]
    plain = [a for a in free if not a.endswith(CHANNEL_ARGUMENT)]
    action = view.proposal.action
    _, argument = action_argument(action)
    if action == WAIT or action == contract.response or argument is not None:
        if not plain:
            return None
        action = draw.choice(plain)
    response = view.proposal.response
    if contract.response is not None and response is None:
        response = str(draw.below(1000))
    directions = [e.direction for e in view.private.evidence]
    directions += [t.direction for t in view.traces]
    return Frame(
        contract,
        view.private.observation,
        action,
        response if contract.response is not None else None,
        view.private.coverage is not None,
        any(directions) if directions else contract.response is None,
        [port.facts for port in view.private.channels] or [{}],
        [row.facts for row in view.private.claims],
    )


def word(draw: Draw) -> str:
    """Make up a word: of syllables, or of any letters, so that every spelling is met."""
    if draw.chance(40):
        return "".join(draw.choice(_LETTERS) for _ in range(draw.between(2, 7)))
    return "".join(draw.choice(_SYLLABLES) for _ in range(draw.between(2, 3)))


def _key(draw: Draw) -> str:
    """Make up a key; a word that spells something a view must not hold is drawn again."""
    while keys.forbidden(made := word(draw)):
        pass
    return made


def _actions(draw: Draw, shape: Shape) -> tuple[str, ...]:
    """Make up a list of legal actions: plain words, arguments, sometimes one that takes a port."""
    style = draw.choice((str.upper, str.upper, str.upper, str.lower, str.capitalize))
    names = dict.fromkeys(style(word(draw)) for _ in range(draw.between(1, 7)))
    actions = [name for name in names if name != WAIT]
    if draw.chance(40):
        verb, join = style(word(draw)), draw.choice(("_", "_", " "))
        actions += [f"{verb}{join}{i}" for i in range(1, draw.between(3, 8))]
    if shape == "spatial" and draw.chance(20):
        actions.append(f"{word(draw).upper()}:{CHANNEL_ARGUMENT}")
    place = draw.below(len(actions) + 1)
    return (*actions[:place], WAIT, *actions[place:])


def _wild_actions(draw: Draw) -> tuple[str, ...]:
    """Make up a list of legal actions of every spelling."""
    actions = vocabulary.actions(draw, draw.between(1, 9))
    place = len(actions) if draw.chance(50) else draw.below(len(actions) + 1)
    return (*actions[:place], WAIT, *actions[place:])


def _observation(draw: Draw) -> dict[str, Json]:
    """Make up private content: numbers, words, small lists, one table."""
    made: dict[str, Json] = {}
    for key in draw.some(_KEYS, draw.between(1, 4)):
        kind = draw.below(4)
        if kind == 0:
            made[key] = draw.below(50)
        elif kind == 1:
            made[key] = word(draw)
        elif kind == 2:
            made[key] = [draw.below(100) for _ in range(draw.between(1, 8))]
        else:
            made[key] = {_key(draw): draw.below(10) for _ in range(draw.between(1, 3))}
    return made


def _facts(draw: Draw, names: Sequence[str]) -> dict[str, Fact]:
    return {name: draw.between(0, 4) for name in names}


def made_up_contract(draw: Draw, shape: Shape, *, wild: bool = False) -> Contract:
    """Make up a contract of one shape; a wild one has words of every spelling and any goal."""
    actions = _wild_actions(draw) if wild else _actions(draw, shape)
    answer = None
    if shape == "ports" or draw.chance(10):
        answer = draw.choice(vocabulary.actions(draw, 1)) if wild else word(draw).upper()
        if answer not in actions:
            place = draw.below(len(actions) + 1) if wild else len(actions)
            actions = (*actions[:place], answer, *actions[place:])
    goal = vocabulary.goal(draw) if wild else draw.choice(_GOALS).format(a=word(draw), b=word(draw))
    deposits = 1 if draw.chance(75) else draw.between(2, 4)
    task = vocabulary.task(draw) if wild else f"{word(draw)}/{word(draw)}"
    return Contract(task, goal, actions, deposits, draw.chance(15), answer)


def made_up_frame(draw: Draw, shape: Shape, contract: Contract | None = None) -> Frame:
    """Make up a frame of one shape, with a contract of its own where none is given."""
    contract = contract or made_up_contract(draw, shape)
    answer = contract.response
    listed = contract.actions
    plain = [a for a in listed if a not in (WAIT, answer) and not a.endswith(CHANNEL_ARGUMENT)]
    port_names = draw.some(_PORT_FACTS, draw.between(0, 3))
    claim_names = draw.some(_CLAIM_FACTS, draw.between(1, 2)) if draw.chance(40) else []
    return Frame(
        contract,
        _observation(draw),
        draw.choice(plain) if plain else WAIT,
        None if answer is None else _answer(draw),
        shape == "ports",
        shape == "spatial",
        [_facts(draw, port_names) for _ in range(6)],
        [_facts(draw, claim_names) for _ in range(6)] if claim_names else [],
    )


def _answer(draw: Draw) -> str:
    kind = draw.below(3)
    if kind == 0:
        return str(draw.below(100_000))
    if kind == 1:
        return word(draw)
    return "[" + ",".join(str(draw.below(90)) for _ in range(draw.between(1, 6))) + "]"
