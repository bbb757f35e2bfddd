"""Draws of a round made in one array are those of `seeds.mix`, and nothing outlives its cause."""

from __future__ import annotations

import pickle
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.swarms import CASE, SEEN, Toy
from waggle.core.protocols import Write
from waggle.core.seeds import mix, mix_all
from waggle.runtime.draws import UPDATES, Contacts, Draws
from waggle.runtime.state import Field, Swarm
from waggle.runtime.switches import Switches
from waggle.runtime.views import show

WORDS = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=9), WORDS)
def test_one_array_has_the_draws_of_single_calls(pairs: list[tuple[int, int]], key: int) -> None:
    seeds, keys = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
    assert mix_all(seeds, keys).tolist() == [mix(*pair) for pair in pairs]
    assert mix_all(seeds, key).tolist() == [mix(seed, key) for seed, _ in pairs]


@given(st.lists(st.tuples(WORDS, st.sets(st.integers(0, 5))), max_size=5), st.integers(0, 99))
def test_lots_and_places_are_private_draws(nodes: list[tuple[int, set[int]]], round: int) -> None:
    keys = (7, 2**63 + 5, 0, 11, 3, 2**64 - 1)
    contacts = [
        Contacts(seed, tuple(near), {j: f"h{j}" for j in near}, {f"h{j}": j for j in near})
        for seed, near in nodes
    ]
    made = Draws(keys).make(contacts, round)
    for (seed, near), drawn in zip(nodes, made, strict=True):
        draws = {j: mix(seed ^ round, keys[j]) for j in near}
        order = sorted(near, key=lambda j: mix(draws[j], 2))
        assert drawn.entropy == mix(seed, UPDATES + round)
        assert drawn.draws == list(draws.values())
        assert drawn.ports == [(j, f"h{j}", draws[j] >> 60) for j in order]


class Roaming(Toy):
    """A world that hands out one list and one observation of its own, and changes them."""

    def __init__(self, life: Any) -> None:
        super().__init__(evidence={(0, 0): [SEEN]})
        self.handle_life = life
        self.near = [1, 2]
        self.seen: dict[str, Any] = {"hour": "noon"}

    def neighbours(self, node: int) -> list[int]:
        return self.near if node == 0 else [0]

    def sense(self, node: int, local: Any) -> Any:
        return msgspec.structs.replace(super().sense(node, local), observation=self.seen)


def test_what_a_world_changes_in_place_is_seen() -> None:
    """Contacts, traces and texts of an earlier round would show in the next view."""
    world = Roaming("contact")
    swarm = Swarm(world, CASE, Switches(), 0)
    first = show(swarm, 0, 0, "shuffled")
    swarm.nodes[0].field.put(Write(2, 0, "apple", 4, 4, 0, 8, None, True))
    world.near.remove(1)
    world.seen["hour"] = "night"
    second = show(swarm, 0, 0, "shuffled")
    assert set(first.handles.values()) == {1, 2} and list(second.handles.values()) == [2]
    assert b"night" in second.data and b"night" not in first.data
    assert [t.channel for t in second.view.traces] == list(second.handles)
    world.near.append(1)
    third = show(swarm, 0, 0, "shuffled")
    again = {name for name, j in third.handles.items() if j == 1}
    assert again and not again & set(first.handles), "a new contact has a new handle"


def test_a_new_contact_stands_last_from_the_second_view_on() -> None:
    """A broadcast is recorded in the order of the handles, so it must not depend on a cache."""
    world = Roaming("contact")
    swarm = Swarm(world, CASE, Switches(), 0)
    orders = []
    for near in ([1], [2, 1], [2, 1], [2, 1]):
        world.near[:] = near
        orders.append(list(show(swarm, 0, 0, "shuffled").handles.values()))
    assert orders == [[1], [2, 1], [1, 2], [1, 2]]


def test_a_kept_swarm_draws_the_same() -> None:
    swarm = Swarm(Toy(evidence={(0, 0): [SEEN]}), CASE, Switches(), 0)
    before = show(swarm, 0, 3, "shuffled")
    kept: Swarm = pickle.loads(pickle.dumps(swarm))
    assert show(kept, 0, 3, "shuffled").data == before.data == show(swarm, 0, 3, "shuffled").data


def test_every_change_of_a_field_shows_in_its_traces() -> None:
    field = Field()
    field.put(Write(1, 0, "apple", 4, 4, 0, 3, None, True))
    field.put(Write(2, 0, "apple", 4, 4, 0, 3, None, True))
    assert len(field.traces()) == 2
    field.drop([(1, "apple")])
    assert [t.neighbour for t in field.traces()] == [2]
    field.age()
    assert field.traces()[0].ttl == 2
    field.forget(frozenset())
    assert field.traces() == ()
