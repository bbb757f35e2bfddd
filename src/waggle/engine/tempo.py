"""What passes take on this kind of machine: how far drafts reach, and whether they pay.

Estimates from measurements on two cores and one H200. Invariant: they steer speed alone, never an
answer.
"""

from __future__ import annotations

from waggle.engine.backends.base import Pace
from waggle.engine.effort import Effort
from waggle.engine.model.decoder import Decoder
from waggle.engine.model.kv_cache import position_bytes

LAYER_SECONDS = 30e-6
"""Time of one layer's short kernels in a step, on a large GPU."""
READING = 3.5e12
"""Bytes per second at which such a GPU reads weights."""
PRODUCTS = 3.4e14
"""Operations per second at which such a GPU runs prompts of a small model."""
DRAFTED = 1.3
"""Time of a pass with drafts next to a step."""
PASS_SECONDS = 0.6e-3
"""Host time of one pass with drafts, whatever the rows: laid out, launched, read."""
CHECKED = 2
"""Passes of an answer that came with its prompt: it is verified in one and mended in another."""
REACHES = 16, 8, 4
"""Tokens of a row that a rolled step may try."""
DEAREST = 2.2
"""The longest time that it may take to do so, next to a plain step."""
TRIED_SECONDS = 9e-6
"""What a layer takes longer where rows have several tokens, however many."""
LEAST_ON_CPU = 0.25
"""Part of answers that drafts must foretell on a CPU, where a pass costs what its tokens do."""


def pace(rows: int, parameters: int, asynchronous: bool) -> Pace:
    """Return how far drafts should reach when this many rows share a pass.

    A pass costs as much as `knee` tokens do beyond their own arithmetic: launches and reading the
    weights.
    """
    knee = 250 + 1.5e11 / parameters if asynchronous else 100.0
    patience = knee / rows
    far = patience >= (8 if asynchronous else 4)
    return Pace(patience, least=4 if far else 2, most=31 if far else 15)


def step(rows: float, decoder: Decoder, capacity: int) -> float:
    """Return the seconds that a step of so many rows takes on a large GPU."""
    shape, dtype = decoder.shape, decoder.dtype
    weights: int = decoder.parameters() * dtype.itemsize
    # Rows are rarely as long as their caches, and some of them begin alike.
    keys = rows * capacity * position_bytes(shape, dtype) / 1.5
    return shape.layers * LAYER_SECONDS + (weights + keys) / READING


def reach(rows: int, decoder: Decoder, capacity: int) -> int:
    """Return how many tokens of each row a rolled step tries, if it tries what is recalled."""
    most = DEAREST * step(rows, decoder, capacity)
    found = (tokens for tokens in REACHES if _trying(rows, tokens, decoder, capacity) <= most)
    return next(found, 1)


def recalls(rows: int, decoder: Decoder, capacity: int) -> float:
    """Return the part of rolled answers that must be recalled to pay; all where nothing may be."""
    tokens = reach(rows, decoder, capacity)
    if tokens == 1:
        return 1.0
    return 1.0 - step(rows, decoder, capacity) / _trying(rows, tokens, decoder, capacity)


def _trying(rows: int, tokens: int, decoder: Decoder, capacity: int) -> float:
    """Return the seconds of a step that tries so many tokens of each row."""
    more = rows * (tokens - 1) * 2 * decoder.parameters() / PRODUCTS
    return step(rows, decoder, capacity) + decoder.shape.layers * TRIED_SECONDS + more


def _rolled(rows: int, effort: Effort, decoder: Decoder, capacity: int) -> float:
    """Return the seconds that rows take for a token each, if they are rolled."""
    plain, tokens = step(rows, decoder, capacity), reach(rows, decoder, capacity)
    return min(plain, _trying(rows, tokens, decoder, capacity) / effort.stride)


def least(rows: int, effort: Effort, decoder: Decoder, capacity: int) -> float:
    """Return the part of free answers that drafts must foretell to pay on such a GPU.

    It rolls all rows in little more than the time of one, while the host drafts for each row apart:
    after every pass, or for one half of the rows while the other half is run; the beginnings of
    answers while prompts are run. From 1 on drafts never pay.
    """
    late = rows * max(0.0, effort.answer - _prompt(effort, decoder)) / effort.length
    host = rows * effort.row
    whole, half = (step(count, decoder, capacity) for count in (rows, rows / 2))
    in_turn = DRAFTED * whole + PASS_SECONDS + host
    side_by_side = max(2 * DRAFTED * half, 2 * PASS_SECONDS + host)
    rolled = _rolled(rows, effort, decoder, capacity)
    return 1.0 - (rolled - late) / min(in_turn, side_by_side)


def foretells(rows: int, effort: Effort, decoder: Decoder, capacity: int) -> bool:
    """Whether free answers that come with their prompts pay on such a GPU, which may roll instead.

    While prompts are run the host has time to spell what is foretold; a small model says its answer
    before that is done.
    """
    rolled = effort.length * _rolled(rows, effort, decoder, capacity) / rows
    checked = CHECKED * (effort.row + PASS_SECONDS / rows)
    return effort.given - _prompt(effort, decoder) + checked < rolled


def _prompt(effort: Effort, decoder: Decoder) -> float:
    """Return the seconds that a prompt takes on such a GPU."""
    return effort.tokens * 2 * decoder.parameters() / PRODUCTS
