"""No forbidden key leaves a substrate, however it is spelled and however deep it lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.core.examples import VIEW
from waggle.core import bounds
from waggle.core.bounds import MAX_KEY
from waggle.core.canon import check_view
from waggle.core.errors import ContractError
from waggle.core.keys import forbidden
from waggle.core.schema import Json, Port, View

FORBIDDEN = {
    "identity": ("id", "ID", "agent_id", "agentID", "Agent-Ids", "nodeIndex", "NODE ID", "my_name",
                 "neighbour_name", "role", "Roles", "uuid", "identities", "selfId", "AGENTID",
                 "a.g.e.n.t.i.d", "agent\u200bid", "\uff21gent_\uff49d", "sender", "who",
                 "ro\u3164le", "r\u115fole", "last_i\x00d", "last_i\u2065d", "my\trole",
                 "agent_7", "node12", "robot_3_pose", "id2", "Role2", "ag3nt_1"),
    "roster": ("roster", "ROSTERS", "agents", "allNodes", "all-agents", "peers", "team",
               "participants", "other_agents", "node_list", "memberList", "agents2"),
    "population-size": ("population", "populationSize", "n_agents", "numAgents", "NUM_NODES",
                        "swarm-size", "team_size", "number_of_agents", "agent_count", "headcount",
                        "network size", "total_agents"),
    "non-neighbour": ("non_neighbors", "nonNeighbours", "NON-LOCAL", "remote_state", "far_nodes",
                      "two_hop"),
    "global-state": ("global", "globalState", "GLOBAL-MAP", "world_state", "adjacency",
                     "adjacencyMatrix", "topology", "edges", "full_map", "ground_truth",
                     "topology2"),
    "global-transcript": ("transcript", "globalTranscript", "GLOBAL_TRANSCRIPTS", "blackboard",
                          "conversation", "chat_log", "messageHistory", "broadcast_log"),
}  # fmt: skip
ALLOWED = (
    "grid", "idle", "width", "valid", "window", "prey", "side", "offer", "sent", "heard", "lot",
    "hidden_digit", "neighbours", "neighbour_count", "priority", "order", "phase", "score", "map",
    "position", "near_agents", "rounds", "energy", "coverage", "covered", "void", "video",
    "holds", "color", "degree", "known", "conflict", "nearby", "action", "heading", "kind",
    "near_agent_2", "side_2", "light1", "within_2", "k1", "i_d7",
)  # fmt: skip


@pytest.mark.parametrize(
    ("key", "category"), [(k, c) for c, keys in FORBIDDEN.items() for k in keys]
)
def test_forbidden_spelling(key: str, category: str) -> None:
    assert forbidden(key) == category


@pytest.mark.parametrize("key", ALLOWED)
def test_task_words_are_allowed(key: str) -> None:
    assert forbidden(key) is None


def _observing(value: dict[str, Json]) -> View:
    private = msgspec.structs.replace(VIEW.private, observation=value)
    return msgspec.structs.replace(VIEW, private=private)


def test_forbidden_key_seven_levels_down() -> None:
    value: Json = {"Agent-ID": 3}
    for level in range(6):
        value = [value] if level % 2 else {"inner": value}
    with pytest.raises(ContractError, match="identity"):
        check_view(_observing({"top": value}))


def test_forbidden_key_in_a_table() -> None:
    ports = (Port("ha", 1, {"nodeId": 4}),)
    private = msgspec.structs.replace(VIEW.private, channels=ports)
    with pytest.raises(ContractError, match="identity"):
        check_view(msgspec.structs.replace(VIEW, private=private, traces=()))


LONG = "total" * 3000 + "q"
"""A key in which the search for a population size took two seconds."""


@pytest.mark.parametrize("key", [LONG, LONG[-65:]])
@pytest.mark.parametrize(
    "content",
    [
        lambda key: {"observation": {key: 1}},
        lambda key: {"observation": {"top": [{key: 1}]}},
        lambda key: {"channels": (*VIEW.private.channels, Port("hd", 1, {key: 4}))},
    ],
)
def test_a_long_key_is_refused_before_it_is_searched(
    key: str, content: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def leak(keys: tuple[str, ...]) -> None:
        assert max(map(len, keys)) <= MAX_KEY, "the key is searched"

    monkeypatch.setattr(bounds, "leak", leak)
    private = msgspec.structs.replace(VIEW.private, **content(key))
    with pytest.raises(ContractError, match="over 64 characters"):
        check_view(msgspec.structs.replace(VIEW, private=private))


def test_the_size_of_a_view_is_checked_first() -> None:
    """Otherwise the keys of a large view are searched before it is refused."""
    with pytest.raises(ContractError, match="bytes"):
        check_view(_observing({f"agent_id_{i}": 0 for i in range(2000)}))


def test_a_key_of_the_greatest_length_passes() -> None:
    check_view(_observing({LONG[-MAX_KEY:]: 1}))


def test_lone_n_is_a_size_and_a_compass_is_not() -> None:
    with pytest.raises(ContractError, match="population-size"):
        check_view(_observing({"n": 64}))
    check_view(_observing({"N": "wall", "E": "free"}))
