"""Opaque names: per-node handle pools and episode-local claim aliases.

Names are drawn, not numbered, so that a name reveals nothing about the order of arrival; another
salt gives other names to the same episode, which is used to test relabelling.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from waggle.core.errors import ContractError
from waggle.core.seeds import derive, mix

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
HANDLES = tuple(f"h{a}{b}" for a in _DIGITS for b in _DIGITS)
"""The episode-local pool that every node samples its handles from."""
CLAIMS = 36**4
"""Number of claim aliases that an episode can mint."""


def handle(seed: int, neighbour_key: int, incarnation: int, taken: Collection[str]) -> str:
    """Draw a node's handle for one neighbour, different from those in use.

    Raises:
        ContractError: when all handles are in use.
    """
    if len(taken) >= len(HANDLES):
        raise ContractError(
            f"a node has met more than {len(HANDLES)} neighbours; let handles last for a contact"
        )
    draw = mix(seed, neighbour_key * 64 + incarnation % 64)
    name = HANDLES[draw % len(HANDLES)]
    while name in taken:
        draw = mix(draw, 0)
        name = HANDLES[draw % len(HANDLES)]
    return name


class _Minted(dict[str, str]):
    """World claim -> alias, minted on first use."""

    def __init__(self, root: int, salt: int, claims: dict[str, str]) -> None:
        super().__init__()
        self._root = root
        self._salt = salt
        self._claims = claims

    def __missing__(self, claim: str) -> str:
        if len(self._claims) >= CLAIMS:
            raise ContractError(
                f"an episode has named more than {CLAIMS} claims; let equal content share a claim"
            )
        draw = derive(self._root, "claim alias", self._salt, claim)
        name = _spell(draw)
        while name in self._claims:
            draw = mix(draw, 0)
            name = _spell(draw)
        self[claim] = name
        self._claims[name] = claim
        return name


class _Drawn(dict[str, int]):
    """World claim -> draw, made on first use."""

    def __init__(self, root: int) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, claim: str) -> int:
        draw = self[claim] = derive(self._root, "claim order", claim)
        return draw


class Aliases:
    """The episode's bijection between world claims and opaque aliases."""

    def __init__(self, root: int, salt: int) -> None:
        self.claims: dict[str, str] = {}
        """Alias -> world claim."""
        self.names: dict[str, str] = _Minted(root, salt, self.claims)
        """World claim -> alias; a claim that is looked up for the first time gets one."""
        self.draws: dict[str, int] = _Drawn(root)
        """World claim -> 64 bits derived from its content, not the salt, for presentation order."""

    def __len__(self) -> int:
        return len(self.names)

    def alias(self, claim: str) -> str:
        """Return the alias of a world claim, minting it on first use."""
        return self.names[claim]

    def minted(self, start: int = 0) -> Iterator[tuple[str, str]]:
        """Yield (claim, alias) in the order of minting, starting at an index."""
        return islice(self.names.items(), start, None)

    def adopt(self, names: Mapping[str, str]) -> None:
        """Add aliases that were minted elsewhere."""
        self.names.update(names)
        self.claims.update((alias, claim) for claim, alias in names.items())

    def draw(self, claim: str) -> int:
        """Return the draw of a world claim."""
        return self.draws[claim]


def _spell(draw: int) -> str:
    letters = []
    for _ in range(4):
        draw, digit = divmod(draw, 36)
        letters.append(_DIGITS[digit])
    return "z" + "".join(letters)
