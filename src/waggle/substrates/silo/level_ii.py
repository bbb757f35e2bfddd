"""Level II of Silo-Bench: ten tasks over consecutive segments (specification section 2).

Where neighbouring segments are unknown, the gold covers the known stretches only and never depends
on unknown data.
"""

from functools import lru_cache
from itertools import accumulate, pairwise
from random import Random
from string import ascii_lowercase
from typing import Any

from waggle.substrates.silo.task import (
    Setting,
    Task,
    TaskDraw,
    beside,
    drawn_integers,
    of_items,
    own,
    runs,
    split,
    up_to,
    verbatim,
)

_LIFE_STEPS = 5
_PATTERN = "ABC"


def _draw_letters(rng: Random, n: int) -> TaskDraw:
    letters = [rng.choice(ascii_lowercase) for _ in range(15 * n)]
    place = rng.randint(0, len(letters) - 7)
    letters[place : place + 7] = "racecar"
    return TaskDraw(split("".join(letters), n), {})


def _draw_pattern(rng: Random, n: int) -> TaskDraw:
    symbols = [rng.choice("ABCDXYZ") for _ in range(20 * n)]
    for _ in range(2):
        place = rng.randint(0, len(symbols) - 15)
        symbols[place] = "A"
        symbols[place + rng.randint(1, 5)] = "B"
        symbols[place + rng.randint(6, 10)] = "C"
    return TaskDraw(split("".join(symbols), n), {})


def _draw_heights(rng: Random, n: int) -> TaskDraw:
    heights = [rng.randint(0, 10) for _ in range(10 * n)]
    for i in range(1, len(heights) - 1, 5):
        heights[i] = rng.randint(0, 3)
    return TaskDraw(split(heights, n), {})


def _draw_chain(rng: Random, n: int) -> TaskDraw:
    chain = list(range(8 * n))
    rng.shuffle(chain)
    items = [{"id": a, "next": b} for a, b in pairwise([*chain, -1])]
    rng.shuffle(items)
    return TaskDraw(split(items, n), {"total_nodes": 8 * n})


def _prefix_sum(parts: dict[int, Any], me: int, setting: Setting) -> list[int]:
    before = sum(part[-1] for position, part in parts.items() if position < me)
    return [before + x for x in parts[me]]


class _Thirds(dict[int, float]):
    """Cache of rounded thirds by sum; few sums occur, and rounding again would be the main cost."""

    def __missing__(self, total: int) -> float:
        self[total] = round(total / 3, 2)
        return self[total]


def _moving_average(parts: dict[int, Any], me: int, setting: Setting) -> list[float]:
    thirds = _Thirds()
    return [
        thirds[a + b + c]
        for run in runs(parts)
        for a, b, c in zip(run, run[1:], run[2:], strict=False)
    ]


def _longest_palindrome(text: str) -> int:
    """Return the longest palindrome's length; each end is tested only for best + 1 and best + 2."""
    best = 0
    for end in range(len(text)):
        for start in (end - best - 1, end - best):
            if start < 0 or text[start] != text[end]:
                continue
            piece = text[start : end + 1]
            if piece == piece[::-1]:
                best = len(piece)
                break
    return best


def _to_bits(cells: list[int], setting: Setting) -> tuple[int, int]:
    return sum(1 << i for i, cell in enumerate(cells) if cell), len(cells)


def _life(parts: dict[int, Any], me: int, setting: Setting) -> list[int]:
    """Run five steps on the stretch around `me`; cells further away cannot affect its own."""
    cells = length = mine = 0
    for position in (me - 1, me, me + 1):
        if position == me:
            mine = length
        bits, width = parts.get(position, (0, 0))
        cells |= bits << length
        length += width
    inside = (1 << length) - 1
    for _ in range(_LIFE_STEPS):
        left, right = cells << 1, cells >> 1
        cells = (left ^ cells ^ right) & ~(left & cells & right) & inside
    return [cells >> (mine + i) & 1 for i in range(parts[me][1])]


def _transitions(shard: str, setting: Setting) -> tuple[tuple[int, int], ...]:
    """Return, for each entry state of the A, B, C machine, its exit state and completion count."""
    outcome = []
    for entry in range(3):
        state, completed = entry, 0
        for symbol in shard:
            if symbol == _PATTERN[state]:
                state = (state + 1) % 3
                completed += state == 0
        outcome.append((state, completed))
    return tuple(outcome)


def _pattern_count(parts: dict[int, Any], me: int, setting: Setting) -> int:
    state = total = 0
    for part in parts.values():
        state, completed = part[state]
        total += completed
    return total


def _trapped(heights: list[int]) -> int:
    left = accumulate(heights, max)
    right = reversed(list(accumulate(reversed(heights), max)))
    return sum(map(min, left, right)) - sum(heights)


def _ranks(parts: dict[int, Any], me: int, setting: Setting) -> dict[str, int]:
    """Return the ranks along the chain from the first known item that no known item points to."""
    following: dict[int, int] = {}
    for part in parts.values():
        following |= part
    pointed = set(following.values())
    item = next((i for i in following if i not in pointed), -1)
    ranks: dict[str, int] = {}
    while item in following and str(item) not in ranks:  # a chain from a file may be cyclic
        ranks[str(item)] = len(ranks)
        item = following[item]
    return ranks


def _merge_repeats(items: list[int]) -> list[int]:
    return items[:1] + [b for a, b in pairwise(items) if a != b]


@lru_cache(maxsize=4096)
def _code(block: str) -> int:
    return sum(map(ord, block)) % 10000


def _block(place: int) -> str:
    return f"Block_{place}_Data"


def _pipeline(parts: dict[int, Any], me: int, setting: Setting) -> list[int]:
    """Return the hashes of the own blocks; unknown earlier blocks follow from their place."""
    size = len(parts[me])
    value = 0
    for position in range(me):
        first = position * size
        codes = parts.get(position) or [_code(_block(first + i)) for i in range(size)]
        for code in codes:
            value = (code ^ value) % 10000
    return list(accumulate(parts[me], lambda h, code: (code ^ h) % 10000, initial=value))[1:]


LEVEL_II = (
    Task(
        "II-11", "Prefix Sum", "II",
        "Report the inclusive running sum of the whole sequence over your own segment.",
        drawn_integers(15, 1, 50), lambda shard, _: list(accumulate(shard)), _prefix_sum,
        segmented=True, needs=up_to,
    ),
    Task(
        "II-12", "Moving Average", "II",
        "Report the mean of each three neighbours of the whole sequence, rounded to 2 decimals.",
        drawn_integers(15, 1, 100), verbatim, _moving_average,
    ),
    Task(
        "II-13", "Longest Palindrome", "II",
        "Report the length of the longest palindrome in the whole text.",
        _draw_letters, verbatim,
        lambda parts, *_: max(_longest_palindrome("".join(run)) for run in runs(parts)),
    ),
    Task(
        "II-14", "1D Life Game", "II",
        "Report your own cells after 5 steps; a cell becomes 1 iff exactly one of left, self and "
        "right is 1, and outside counts 0.",
        drawn_integers(10, 0, 1), _to_bits, _life, segmented=True, needs=beside,
    ),
    Task(
        "II-15", "Pattern Search", "II",
        "Report how often A, then B, then C completes when the whole text is read once, "
        "starting over after each C.",
        _draw_pattern, _transitions, _pattern_count,
    ),
    Task(
        "II-16", "Trapping Rain", "II",
        "Report the water that the whole elevation profile traps.",
        _draw_heights, verbatim, of_items(_trapped),
    ),
    Task(
        "II-17", "Diff Array", "II",
        "Report the difference of each number of the whole sequence to the one before it.",
        drawn_integers(15, 1, 100), verbatim,
        lambda parts, *_: [b - a for run in runs(parts) for a, b in pairwise(run)],
    ),
    Task(
        "II-18", "List Ranking", "II",
        "Report for every item its distance from the head of the linked list.",
        _draw_chain, lambda shard, _: {item["id"]: item["next"] for item in shard}, _ranks,
        stated=lambda setting: {"items": setting.public["total_nodes"]},
    ),
    Task(
        "II-19", "Merge Neighbors", "II",
        "Report the whole sequence without consecutive repeats.",
        lambda rng, n: TaskDraw(split(sorted(rng.randint(1, 50) for _ in range(15 * n)), n), {}),
        lambda shard, _: _merge_repeats(shard), of_items(_merge_repeats),
    ),
    Task(
        "II-20", "Pipeline Hash", "II",
        "Report h over your own blocks: h = ((sum of character codes mod 10000) xor previous h) "
        "mod 10000 along the whole sequence, starting from 0.",
        lambda rng, n: TaskDraw(split([_block(i) for i in range(5 * n)], n), {}),
        lambda shard, _: [_code(block) for block in shard], _pipeline, segmented=True, needs=own,
    ),
)  # fmt: skip
