"""Recorded vectors: a sample in tests/golden, and all of them where ../shared/golden is there."""

from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "golden"
SHARED = Path(__file__).parents[3] / "shared" / "golden"
ALL = SHARED.is_dir()
"""Whether all recorded vectors are there, not the sample alone."""
GOLDEN = SHARED if ALL else SAMPLE
GRAPHS = GOLDEN / "agentsnet" / "graphs"
