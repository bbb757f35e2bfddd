"""Forbidden keys in odd spellings: what looks like the word, or says it in another order."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

import pytest

from tests.hostile.tally import Tally
from waggle.core.keys import forbidden

BASE = (
    "agent_id", "node_id", "agent_name", "node_index", "robot_id", "peer_name", "worker_id", "role",
    "identity", "identifier", "uuid", "roster", "agents", "all_nodes", "node_list", "population",
    "num_agents", "swarm_size", "team_size", "agent_count", "number_of_agents", "headcount",
    "non_neighbors", "non_local", "global", "global_state", "world_state", "adjacency", "topology",
    "ground_truth", "transcript", "global_transcript", "blackboard", "chat_log", "message_history",
)  # fmt: skip
CYRILLIC = str.maketrans("aceiopsxyjhkmt", "асеіорѕхујһкмт")
GREEK = str.maketrans("aeioptux", "αειορτυχ")
CAPITALS = str.maketrans("ABEHIKMNOPTXYZ", "ΑΒΕΗΙΚΜΝΟΡΤΧΥΖ")
SMALL_CAPITALS = str.maketrans("abcdeghijklmnoprtuvwz", "ᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡᴢ")
LEET = str.maketrans("oeas", "0345")


def camel(word: str) -> str:
    first, *rest = word.split("_")
    return first + "".join(part.title() for part in rest)


def inside(word: str, table: dict[int, int]) -> str:
    """Replace letters that have a letter on both sides."""
    return "".join(
        c.translate(table)
        if 0 < i < len(word) - 1 and word[i - 1].isalpha() and word[i + 1].isalpha()
        else c
        for i, c in enumerate(word)
    )


SPELLINGS: dict[str, Callable[[str], str]] = {
    "capitals": str.upper,
    "camel case": camel,
    "no separator": lambda w: w.replace("_", ""),
    "dots": lambda w: w.replace("_", "."),
    "spaces": lambda w: f" {w.replace('_', ' ')} ",
    "spread": lambda w: "_".join(w.replace("_", "")),
    "Cyrillic letters": lambda w: w.translate(CYRILLIC),
    "one Cyrillic letter": lambda w: w.replace("e", "е", 1).replace("o", "о", 1),
    "Cyrillic capitals": lambda w: w.translate(CYRILLIC).upper(),
    "Greek letters": lambda w: w.translate(GREEK),
    "Greek capitals": lambda w: w.upper().translate(CAPITALS),
    "small capitals": lambda w: w.translate(SMALL_CAPITALS),
    "full width": lambda w: "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in w),
    "mathematical letters": lambda w: "".join(
        chr(ord(c) - ord("a") + 0x1D41A) if c.isalpha() else c for c in w
    ),
    "accents": lambda w: unicodedata.normalize("NFC", "\u0301".join(w)),
    "strokes": lambda w: "\u0336".join(w),
    "zero width": lambda w: "\u200b".join(w),
    "soft hyphens": lambda w: "\u00ad".join(w),
    "digits": lambda w: inside(w, LEET),
    "plural": lambda w: w if w.endswith("s") else f"{w}s",
    "version": lambda w: f"{w}_v2",
    "prefix": lambda w: f"x_{w}",
    "article": lambda w: f"the_{w}",
    "suffix": lambda w: f"{w}_value",
    "both": lambda w: f"my_{w}_info",
}
WHOLE_ONLY = {"role", "agents", "topology", "all_nodes", "node_list", "non_local", "world_state"}
"""Words too common for a match inside of a longer key; affixes are tried on the others."""
AFFIXES = ("version", "prefix", "article", "suffix", "both")
REORDERED = (
    "size_of_swarm", "sizeOfTheSwarm", "size_of_the_team", "count_of_agents", "number_of_the_nodes",
    "how_many_agents", "total_number_of_robots", "count_of_all_agents", "total_of_agents",
    "name_of_agent", "names_of_agents", "id_of_node", "index_of_the_robot", "label_of_peer",
    "identifier_of_the_worker", "number_of_agent", "nameOfThisAgent", "rank_of_agent",
    "list_of_agents", "set_of_all_nodes", "table_of_robots", "map_of_the_world",
    "state_of_the_world", "state_of_swarm", "log_of_messages", "history_of_all_messages",
    "log_of_the_chat",
)  # fmt: skip
INNOCENT = (
    "identical", "idea", "width", "nodule", "teams_color", "agenda", "steamship", "globe",
    "numeral",
    "near_agents", "neighbour_count", "visible_agent_count", "nearby_node_count", "populate",
    "degree", "count", "size", "total", "name", "label", "number", "index_finger", "log", "history",
    "map", "state", "roundabout", "h0w", "x1", "3d", "r2d2", "sum_of_parts", "size_of_food",
    "number_of_steps", "list_of_moves", "history_of_moves", "name_of_colour", "Δx", "σ", "μ_x",
    "agency", "reagent", "personal", "workers_comp_paid", "key", "rank", "grid", "window",
)  # fmt: skip


def spelled() -> Iterator[tuple[str, str]]:
    """Yield every odd spelling with the name of its kind."""
    for kind, spell in SPELLINGS.items():
        for word in BASE:
            if kind not in AFFIXES or word not in WHOLE_ONLY:
                yield kind, spell(word)


def test_odd_spellings_are_found(tally: Tally) -> None:
    passed = [(kind, key) for kind, key in spelled() if forbidden(key) is None]
    assert passed == []
    kinds = [kind for kind, _ in spelled()]
    for kind in SPELLINGS:
        tally.note(f"Forbidden key: {kind}", "found", kinds.count(kind))


@pytest.mark.parametrize("key", REORDERED)
def test_words_in_another_order_are_found(key: str, tally: Tally) -> None:
    assert forbidden(key) is not None
    tally.note("Forbidden key: words in another order", "found")


@pytest.mark.parametrize("key", INNOCENT)
def test_innocent_words_are_left_alone(key: str) -> None:
    assert forbidden(key) is None
