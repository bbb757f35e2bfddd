"""The public surface: pinned, loadable, documented."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import waggle

PUBLIC = [
    "Act",
    "Case",
    "Commitment",
    "Contract",
    "Decision",
    "Decode",
    "Episode",
    "EpisodeRecord",
    "Evidence",
    "Law",
    "Local",
    "Request",
    "Runs",
    "Sensed",
    "Shock",
    "Substrate",
    "Suggestion",
    "Trace",
    "Usage",
    "View",
    "WaggleError",
    "World",
    "WorldBase",
    "check_law",
    "check_substrate",
    "law",
    "metric",
    "play",
    "read",
    "run",
    "substrate",
    "sweep",
]


def test_the_surface_is_what_is_written_here() -> None:
    assert sorted(waggle.__all__) == sorted(PUBLIC)
    assert set(PUBLIC) <= set(dir(waggle))


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_loads_and_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(waggle, name))


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Veiw'.*View"):
        waggle.Veiw  # noqa: B018


def test_the_version_is_the_distribution_s() -> None:
    from importlib.metadata import version

    assert waggle.__version__ == version("waggle-swarm")


def test_python_m_waggle_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "waggle", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == waggle.__version__
