"""Where the recorded AgentsNet material is, for tests that compare with it."""

from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden" / "agentsnet"
GRAPHS = GOLDEN / "graphs"

needs_golden = pytest.mark.skipif(
    not GOLDEN.is_dir(), reason="recorded AgentsNet material (../shared/golden) is not here"
)
