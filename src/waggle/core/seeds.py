"""Named random streams and the disjoint seed ranges of training and evaluation.

Every draw is a pure function of (root seed, purpose, key): streams have no state, so the order in
which nodes are visited cannot matter, and a node's draws follow its key when a swarm is relabelled
(Propositions 1 and 2).
"""

from __future__ import annotations

from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING

from waggle.core.errors import SeedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MASK = (1 << 64) - 1


def derive(root: int, purpose: str, *key: int | str) -> int:
    """Return 64 bits derived from (root, purpose, key)."""
    name = repr((root, purpose, key)).encode()
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big")


def mix(seed: int, key: int) -> int:
    """Return 64 well-mixed bits of (seed, key), a cheap draw within an already derived stream."""
    z = (seed + 0x9E3779B97F4A7C15 * (key + 1)) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def mix_all(seeds: NDArray[np.uint64], keys: NDArray[np.uint64] | int) -> NDArray[np.uint64]:
    """Return `mix` of every seed with its key, or with the one key given."""
    import numpy as np

    if isinstance(keys, int):
        z = seeds + np.uint64(0x9E3779B97F4A7C15 * (keys + 1) & _MASK)
    else:
        z = seeds + np.uint64(0x9E3779B97F4A7C15) * (keys + np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def generator(root: int, purpose: str, *key: int | str) -> np.random.Generator:
    """Return a new numpy generator for the stream (root, purpose, key)."""
    import numpy as np

    return np.random.default_rng(derive(root, purpose, *key))


class Split(Enum):
    """The uses for which seeds are reserved; each value is a tuple of seed ranges.

    Only TRAIN and DEVELOPMENT may be used during development. All others are for evaluation: they
    are played once for each released law.
    """

    TRAIN = (range(10_000),)
    DEVELOPMENT = (range(10_000, 11_000), range(20_000, 25_000))
    EVALUATION = (range(40_000, 41_000),)
    ANCHOR = (range(41_000, 42_000),)
    COUNTEREVIDENCE = (range(42_000, 43_000),)
    HORIZON = (range(43_000, 44_000),)
    EXTENSION = (range(44_000, 45_000),)
    AGENTSNET = (range(45_000, 46_000),)
    WORKERS = (range(46_000, 47_000),)

    @classmethod
    def of(cls, seed: int) -> Split | None:
        """Return the split that contains a seed, or None if there is none."""
        return next((split for split in cls if seed in split), None)

    def __contains__(self, seed: int) -> bool:
        """Return whether the split contains a seed."""
        return any(seed in each for each in self.value)

    @property
    def start(self) -> int:
        """The first seed of the split."""
        first: range = self.value[0]
        return first.start

    def __str__(self) -> str:
        """Return the name of the split and its ranges."""
        ranges = " and ".join(f"{each.start}..{each.stop - 1}" for each in self.value)
        return f"{self.name.lower()} {ranges}"


def require(seed: int, *allowed: Split) -> int:
    """Return the seed if one of the allowed splits contains it.

    Raises:
        SeedError: naming the ranges that may be used.
    """
    if Split.of(seed) in allowed:
        return seed
    raise SeedError(f"seed {seed} may not be used here; use one of {', '.join(map(str, allowed))}")
