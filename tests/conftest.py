"""Options of the suite: what is slow, needs a GPU, or can be run longer is asked for by a flag."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from waggle import plugin_files, plugins

# No deadline, and no limit to the time of making examples: a busy machine is no failure. Examples
# of the standard profile are always the same, so that more of them cost every time and find once;
# `--hypothesis-profile thorough` looks further.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("standard", PATIENT, derandomize=True, max_examples=50)
settings.register_profile("thorough", PATIENT, max_examples=2000)
settings.load_profile("standard")

# Triton interprets its kernels, which then run without a GPU, if it is told so before it is
# imported; the conftest of a folder on the command line may import it before any hook is called.
# A worker of xdist has its environment from the process that knows the command line.
if "--rungpu" not in sys.argv and "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ.setdefault("TRITON_INTERPRET", "1")


# What is imported stays: looking through it again and again for garbage takes a fifth of the time
# that collecting the suite takes. It goes back to the collector at exit, where Triton counts what
# was never collected: pytest looks through all of it before.
gc.disable()
atexit.register(gc.unfreeze)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runslow", action="store_true", help="run tests marked slow")
    parser.addoption("--rungpu", action="store_true", help="run tests marked gpu")
    parser.addoption("--fuzz", type=int, default=15_000, metavar="N", help="texts to fuzz with")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for marker, flag in (("slow", "--runslow"), ("gpu", "--rungpu")):
        if config.getoption(flag):
            continue
        skip = pytest.mark.skip(reason=f"marked {marker}; run with {flag}")
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Spare the collector what was imported: nothing of it goes before the end.

    What tests make dies mostly with its last reference; looking for cycles at every 700 objects, as
    Python does, takes a fortieth of the time of the suite.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let commands keep the key of their user elsewhere than with the user who runs the tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session", autouse=True)
def own_ray() -> Iterator[None]:
    """Let Ray look for a running cluster among those of this process alone.

    The cluster that one worker starts and ends would otherwise be joined by another worker, or that
    of the user by both. A folder of pytest is too long a name for Ray's sockets.
    """
    os.environ.pop("RAY_ADDRESS", None)
    os.environ["RAY_TMPDIR"] = folder = tempfile.mkdtemp(prefix="ray-")
    yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def spared() -> Iterator[None]:
    """Let no test hand what was imported back to the collector, as training does between arms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "unfreeze", lambda: None)
        yield


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what a test decorates, and the plug-in files it loads."""
    fresh = {kind: dict(known) for kind, known in plugins._decorated.items()}
    monkeypatch.setattr(plugins, "_decorated", fresh)
    monkeypatch.setattr(plugin_files, "loaded", {})
    monkeypatch.setenv(plugin_files.FILES, "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for module in plugin_files.loaded.values():
        del sys.modules[module]
