"""Checks of a world: what it has when it is opened, and what its methods return.

A slip in a world of one's own would otherwise surface as an error somewhere in the runtime. The
attributes are read once per episode, the methods once per class, and the results of `step` and
`score` are checked every round. What `neighbours` and `sense` return is looked at only after an
error, since they are called for every node.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

from waggle.core.errors import ContractError
from waggle.core.protocols import Sensed, Suggestion, World
from waggle.core.schema import Contract, Evidence
from waggle.core.world import WorldBase
from waggle.runtime.state import Swarm

_METHODS = {
    name: tuple(inspect.signature(method).parameters)[1:]
    for name, method in vars(World).items()
    if inspect.isfunction(method) and not name.startswith("_")
}
"""The methods of a world, each with the names of its arguments."""
_ATTRIBUTES = tuple(name for name, value in vars(World).items() if isinstance(value, property))
_checked: WeakSet[type] = WeakSet()
"""Classes whose methods are known to fit."""


def check_world(world: Any, substrate: str) -> None:
    """Raise ContractError, in one line with the fix, if a world lacks what the runtime reads."""
    owner = f"world of {substrate!r}"
    if world is None:
        raise ContractError(f"open() of {substrate!r} returned nothing; return its world")
    if type(world) not in _checked:
        for name in _METHODS:
            _check_method(world, name, owner)
        _checked.add(type(world))
    for name in _ATTRIBUTES:
        if not hasattr(world, name) and not hasattr(type(world), name):
            fix = "derive it from WorldBase" if hasattr(WorldBase, name) else "set it in `__init__`"
            raise ContractError(f"{owner} has no `{name}`; {fix}")
    for name in ("n", "rounds"):
        value = getattr(world, name)
        if not isinstance(value, int):
            raise ContractError(f"{owner} has {value!r:.40} as `{name}`; make it a whole number")
    if not isinstance(world.contract, Contract):
        raise ContractError(f"{owner} has {_kind(world.contract)} as `contract`; give a Contract")
    if not isinstance(world.keys, Sequence) or len(world.keys) != world.n:
        raise ContractError(f"{owner} needs a key for each of {world.n} nodes; make `keys` a list")


def _check_method(world: Any, name: str, owner: str) -> None:
    """Require that a method is there and takes the arguments that the runtime gives."""
    wanted = _METHODS[name]
    spelled = f"def {name}({', '.join(('self', *wanted))})"
    method = getattr(world, name, None)
    if not callable(method):
        fix = "derive it from WorldBase" if hasattr(WorldBase, name) else f"write `{spelled}`"
        raise ContractError(f"{owner} has no method `{name}`; {fix}")
    try:
        inspect.signature(method).bind(*wanted)
    except TypeError:
        raise ContractError(
            f"{owner} has a `{name}` that takes other arguments; write `{spelled}`"
        ) from None
    except ValueError:  # some builtins have no signature
        return


def native_actions(found: Any, substrate: str) -> Mapping[int, str]:
    """Return what `step` returned, if it maps nodes to texts."""
    if isinstance(found, Mapping) and isinstance(next(iter(found.values()), ""), str):
        return found
    what = _kind(found)
    if isinstance(found, Mapping):
        what = f"{_kind(next(iter(found.values())))} for a node"
    raise ContractError(
        f"`step` of the world of {substrate!r} returned {what}; return the native action of every "
        "node as {node: text}"
    )


def named_scores(found: Any, substrate: str) -> dict[str, float]:
    """Return what `score` returned, if it maps names to numbers and names the headline."""
    if isinstance(found, Mapping) and "score" in found:
        bad = [name for name, value in found.items() if not isinstance(value, int | float)]
        if not bad:
            return dict(found)
        what = f"{_kind(found[bad[0]])} as {bad[0]!r}"
    else:
        what = "no 'score'" if isinstance(found, Mapping) else _kind(found)
    raise ContractError(
        f"`score` of the world of {substrate!r} returned {what}; return numbers by name, with the "
        "headline as 'score'"
    )


def why_no_view(swarm: Swarm, nodes: Sequence[int]) -> str:
    """Return in one line which result of the world is not of its kind; empty if all are."""
    world: Any = swarm.world
    owner = f"of the world of {swarm.case.substrate!r} returned"
    for node in nodes:
        contacts = world.neighbours(node)
        if not isinstance(contacts, Iterable):
            return f"`neighbours` {owner} {_kind(contacts)}; return the contacts of the node"
        strange = [j for j in contacts if j not in range(world.n)]
        if strange:
            return f"`neighbours` {owner} {strange[0]!r:.40}, which is no node; return nodes"
        sensed = world.sense(node, swarm.local(node))
        if not isinstance(sensed, Sensed):
            return f"`sense` {owner} {_kind(sensed)}; return a Sensed"
        if not isinstance(sensed.proposal, Suggestion):
            return f"`sense` {owner} {_kind(sensed.proposal)} as `proposal`; give a Suggestion"
        for name in ("action", "claim", "response"):
            value = getattr(sensed.proposal, name)
            if not isinstance(value, str) and (value is not None or name == "action"):
                return f"`sense` {owner} {_kind(value)} as `{name}` of its proposal; give a text"
        rows: Any = sensed.evidence
        if not isinstance(rows, Sequence) or not all(isinstance(row, Evidence) for row in rows):
            return f"`sense` {owner} no tuple of Evidence as `evidence`; write (Evidence(...),)"
    return ""


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
