"""What passes take on this kind of machine: how far drafts reach, and whether they pay.

Estimates from measurements on two cores and one H200. Invariant: they steer speed alone, never an
answer.
"""

from __future__ import annotations

from waggle.engine.decoder import Decoder
from waggle.engine.effort import Effort
from waggle.engine.passes import Pace
from waggle.engine.stores import position_bytes

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
    return 1.0 - (whole - late) / min(in_turn, side_by_side)


def foretells(rows: int, effort: Effort, decoder: Decoder, capacity: int) -> bool:
    """Whether free answers that come with their prompts pay on such a GPU, which may roll instead.

    While prompts are run the host has time to spell what is foretold; a small model says its answer
    before that is done.
    """
    rolled = effort.length * step(rows, decoder, capacity) / rows
    checked = CHECKED * (effort.row + PASS_SECONDS / rows)
    return effort.given - _prompt(effort, decoder) + checked < rolled


def _prompt(effort: Effort, decoder: Decoder) -> float:
    """Return the seconds that a prompt takes on such a GPU."""
    return effort.tokens * 2 * decoder.parameters() / PRODUCTS
