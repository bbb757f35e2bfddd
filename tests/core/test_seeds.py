"""Seeds: every split owns its ranges alone, and the code that trains refuses all but its own."""

from __future__ import annotations

from itertools import combinations

import pytest

from waggle.core.errors import SeedError
from waggle.core.seeds import Split, require

LOOKED_AT = (Split.TRAIN, Split.DEVELOPMENT)


@pytest.mark.parametrize(
    ("seed", "owner"),
    [
        (0, Split.TRAIN), (9_999, Split.TRAIN), (10_000, Split.DEVELOPMENT), (11_000, None),
        (20_000, Split.DEVELOPMENT), (22_009, Split.DEVELOPMENT), (24_999, Split.DEVELOPMENT),
        (25_000, None), (39_999, None), (40_000, Split.EVALUATION), (41_000, Split.ANCHOR),
        (42_000, Split.COUNTEREVIDENCE), (43_000, Split.HORIZON), (44_999, Split.EXTENSION),
        (45_999, Split.AGENTSNET), (46_000, Split.WORKERS), (47_000, None), (-1, None),
    ],
)  # fmt: skip
def test_a_seed_has_one_owner(seed: int, owner: Split | None) -> None:
    assert Split.of(seed) is owner


def test_splits_share_no_seed() -> None:
    owned = {split: {seed for each in split.value for seed in each} for split in Split}
    assert all(owned[one].isdisjoint(owned[two]) for one, two in combinations(Split, 2))
    assert all(split.start == min(seeds) for split, seeds in owned.items())


def test_what_may_be_looked_at_refuses_every_evaluation_seed() -> None:
    assert require(20_000, *LOOKED_AT) == 20_000
    for split in set(Split) - set(LOOKED_AT):
        with pytest.raises(SeedError, match=r"development 10000\.\.10999 and 20000\.\.24999$"):
            require(split.start, *LOOKED_AT)
