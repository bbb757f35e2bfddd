"""Named random streams and the disjoint seed ranges of honest evaluation.

Every draw is a pure function of (root seed, purpose, key): nothing is consumed, so the order in
which nodes are visited cannot matter, and a key that is node state carries its draws along when a
swarm is relabelled (Propositions 1 and 2).
"""

from __future__ import annotations

from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING

from waggle.core.errors import SeedError

if TYPE_CHECKING:
    import numpy as np

_MASK = (1 << 64) - 1


def derive(root: int, purpose: str, *key: int | str) -> int:
    """Return 64 bits named by (root, purpose, key)."""
    name = repr((root, purpose, key)).encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big")


def mix(seed: int, key: int) -> int:
    """Return 64 well-mixed bits of (seed, key): the cheap inner draw of an already named stream."""
    z = (seed + 0x9E3779B97F4A7C15 * (key + 1)) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def generator(root: int, purpose: str, *key: int | str) -> np.random.Generator:
    """Return a numpy generator of its own for the stream (root, purpose, key)."""
    import numpy as np

    return np.random.default_rng(derive(root, purpose, *key))


class Split(Enum):
    """Which use a seed is reserved for."""

    TRAIN = range(10_000)
    DEVELOPMENT = range(10_000, 11_000)
    EVALUATION = range(20_000, 21_000)
    ANCHOR = range(21_000, 22_000)
    COUNTEREVIDENCE = range(22_000, 23_000)
    HORIZON = range(23_000, 24_000)
    EXTENSION = range(24_000, 25_000)

    @classmethod
    def of(cls, seed: int) -> Split | None:
        """Return the split that owns a seed, or None for a free seed."""
        return next((split for split in cls if seed in split.value), None)


def require(seed: int, *allowed: Split) -> int:
    """Return the seed if one of the allowed splits owns it.

    Raises:
        SeedError: naming the ranges that may be used.
    """
    if Split.of(seed) in allowed:
        return seed
    ranges = ", ".join(f"{s.name.lower()} {s.value.start}..{s.value.stop - 1}" for s in allowed)
    raise SeedError(f"seed {seed} may not be used here; use one of {ranges}")
