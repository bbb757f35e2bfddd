"""The committed manifest is what the generator makes and says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from waggle.corpus.problems import families, manifest

COMMITTED = Path(__file__).parents[3] / "recipes" / "lineage" / "manifest.json"


def test_the_committed_manifest_is_that_of_the_generator() -> None:
    assert COMMITTED.read_text() == manifest.text(), (
        "the generator has changed: raise its version and run "
        "`waggle corpus manifest recipes/lineage/manifest.json`, unless a law was trained on it"
    )


def test_it_names_three_far_problems_that_are_held_out() -> None:
    said = json.loads(COMMITTED.read_text())
    assert len(said["families"]["development"]) == 3
    assert not set(said["families"]["development"]) & set(said["families"]["far"])


def test_another_wording_is_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = manifest.manifest()["digest"]
    monkeypatch.setattr(manifest, "GOALS", {**families.GOALS, "turn": ["Now?"]})
    assert manifest.manifest()["digest"] != before
