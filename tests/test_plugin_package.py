"""A real package, installed as a third party would install it, is found by its entry points."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "plugin_package"
PROBE = """
from waggle import plugins
from waggle.core.protocols import Case
from waggle.testing import check_law, check_substrate
from waggle.testing.episodes import play

assert [e.origin for e in plugins.entries("substrate") if e.name == "hive"] == ["waggle-hive"]
assert plugins.find_task("forage").name == "hive/forage"
check_substrate("hive", laws=["heuristic", "eager"]).require()
check_law("eager", "hive").require()
record = play(plugins.get_substrate("hive"), plugins.get_law("eager"), Case("hive", "forage", 6, 1))
metric = plugins.get_metric("chatter")
assert metric.better == "lower" and metric(record) > 0
silent = play(
    plugins.get_substrate("hive"), plugins.get_law("eager", shy=True), Case("hive", "forage", 6, 1)
)
assert metric(silent) == 0
print("hive works")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package into a folder of its own, without network or dependencies."""
    root = tmp_path_factory.mktemp("plugin")
    source, target = root / "source", root / "site"
    shutil.copytree(PACKAGE, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def probe(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_an_installed_package_brings_a_substrate_a_law_and_a_metric(installed: Path) -> None:
    done = probe(PROBE, installed)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hive works\n"


def test_without_the_package_its_names_are_unknown() -> None:
    done = probe(PROBE)
    assert done.returncode != 0


def test_a_package_that_cannot_be_imported_hides_no_other(installed: Path) -> None:
    broken = installed.parent / "broken"
    shutil.copytree(installed, broken)
    (broken / "hive" / "world.py").write_text("raise RuntimeError('no wings')\n")
    code = (
        "from waggle import plugins\n"
        "print(plugins.broken('substrate')['hive'])\n"
        "assert plugins.find_task('beacon').substrate == 'beacon'\n"
    )
    done = probe(code, broken)
    assert done.returncode == 0, done.stderr
    assert "waggle-hive" in done.stdout and "no wings" in done.stdout
    assert done.stdout.count("\n") == 1
