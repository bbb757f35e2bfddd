"""The manifest of the clean lineage: what its laws may be trained on, declared before they play.

It lists the generator and digests of its output, every wording, the families with the problems
held out for development, the problems that are never generated, and the seeds. Invariant: equal
generators have equal manifests, and the digest covers all of it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from waggle.core.canon import encode_decision, encode_view
from waggle.corpus import curriculum, harvest
from waggle.corpus.problems.families import FAMILIES, GOALS, pairs

VERSION = 1
"""Version of the generator; different versions make different views."""
NEVER = (
    "independent set", "majority", "proper colouring", "2-hop colouring", "defective colouring",
    "edge colouring", "matching", "cover", "leader", "consensus", "flooding a minimum",
)  # fmt: skip
"""Problems that are in no family, because a transfer task poses them or similar ones."""
MIRRORED = ("linked", "crowded", "poised", "eased", "relays", "agreed")
"""Kinds of views that mirror goals of AgentsNet. Only the laws of 0.1.0 used them."""
SAMPLE, SAMPLE_SALT = 200, 0
"""Number of views of each family that are digested, and the salt of their draws."""
EVALUATION = {"seeds from": 45_000, "n": [8, 16, 100], "played": "once per law"}


def manifest() -> dict[str, Any]:
    """Return the manifest with its digest."""
    found: dict[str, Any] = {
        "generator": {
            "module": "waggle.corpus.problems",
            "version": VERSION,
            "views": {family: _digest(family) for family in FAMILIES},
        },
        "families": {family: list(names) for family, names in FAMILIES.items()},
        "excluded": {"problems": list(NEVER), "kinds of views": list(MIRRORED)},
        "seeds": {
            "harvest": {split: _span(seeds) for split, seeds in harvest.SEEDS.items()},
            "corpus": {split: _span(seeds) for split, seeds in curriculum.SEEDS.items()},
            "evaluation": EVALUATION,
        },
        "texts": dict(GOALS),
    }
    return {
        "digest": sha256(msgspec.json.encode(found, order="deterministic")).hexdigest(),
        **found,
    }


def text() -> str:
    """Return the manifest as the text of its file."""
    return msgspec.json.format(msgspec.json.encode(manifest())).decode() + "\n"


def _digest(family: str) -> str:
    made = sha256()
    for view, decision in pairs(family, SAMPLE_SALT, SAMPLE):
        made.update(encode_view(view) + encode_decision(decision) + b"\n")
    return made.hexdigest()


def _span(seeds: range) -> list[int]:
    """Return the first and the last seed of a range."""
    return [seeds[0], seeds[-1]]
