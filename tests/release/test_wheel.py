"""What users install: the wheel of the package, and that of the adapter `smollm2`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path

import pytest

import waggle
from hatch_build import absolute
from waggle import shipped
from waggle.report.model_card import card

ROOT = Path(__file__).parent.parent.parent
LARGEST = 30_000_000
"""Bytes of the package's wheel."""
STORED = "import hatchling.cli, zlib; zlib.Z_DEFAULT_COMPRESSION = 0; hatchling.cli.hatchling()"
"""A program that builds as hatchling does, without four seconds of compressing weights."""


def call(*words: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command to its end and return what it prints."""
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, capture_output=True, text=True, check=False,
        env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def built(project: Path, out: Path, program: Sequence[str] = ("-m", "hatchling")) -> Path:
    """Build the wheel of a project of this repository."""
    call(sys.executable, *program, "build", "-t", "wheel", "-d", out, cwd=project)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed into a folder of its own beside the libraries of this environment."""
    target = tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    call(*pip, "--no-deps", "--no-index", "--no-compile", "--target", target, wheel, cwd=target)
    return target


def test_the_wheel_is_small_and_holds_its_law(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    law = shipped.manifest(shipped.folder("nano"))
    assert {f"waggle/shipped/nano/{name}" for name in (*law.files, shipped.LAW)} <= held
    assert not [
        name
        for name in held
        if name.startswith(("benchmarks/", "tests/", "waggle_nano_outcome/", "waggle_smollm2/"))
    ]
    assert wheel.stat().st_size < LARGEST


def test_an_installed_wheel_plays_its_law(site: Path, tmp_path: Path) -> None:
    words = [
        "run",
        "silo/I-01",
        "-n",
        "4",
        "--rounds",
        "2",
        "--law",
        "nano",
        "--json",
        "--out",
        "record",
    ]
    said = call(sys.executable, "-m", "waggle", *words, cwd=tmp_path, PYTHONPATH=str(site))
    assert json.loads(said)["law"] == "nano"
    where = "import waggle; print(waggle.__file__)"
    said = call(sys.executable, "-c", where, cwd=tmp_path, PYTHONPATH=str(site))
    assert said.startswith(str(site))


def test_the_wheel_brings_the_recipes(site: Path, tmp_path: Path) -> None:
    words = (sys.executable, "-m", "waggle", "recipes", "copy", "--json")
    said = call(*words, cwd=tmp_path, PYTHONPATH=str(site))
    ours = [path for path in (ROOT / "recipes").rglob("*") if path.suffix in {".toml", ".sh"}]
    assert len(json.loads(said)["files"]) == len(ours) > 30
    for path in ours:
        copied = tmp_path / path.relative_to(ROOT)
        assert copied.read_bytes() == path.read_bytes(), path
        assert os.access(copied, os.X_OK) == os.access(path, os.X_OK)


def test_the_page_of_the_index_leads_nowhere_without_a_repository(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
    told = Parser().parsestr(archive.read(metadata).decode())
    assert "Project-URL" not in told, "no address is better than one that nobody holds"
    links = re.findall(r"\]\(([^)]+)\)", str(told.get_payload()))
    assert all(link.startswith(("https://", "#")) for link in links)


def test_the_page_of_the_index_leads_to_the_repository() -> None:
    text = "![demo](a.gif) [law](docs/law.md) [paper](https://x.org) [below](#below)"
    there = "![demo](R/raw/HEAD/a.gif) [law](R/blob/HEAD/docs/law.md)"
    assert absolute(text, "R") == f"{there} [paper](https://x.org) [below](#below)"
    assert absolute(text, None) == " law [paper](https://x.org) [below](#below)"


@pytest.mark.slow
def test_a_fresh_environment_shows_the_demo(wheel: Path, tmp_path: Path) -> None:
    call(sys.executable, "-m", "venv", "fresh", cwd=tmp_path)
    python = tmp_path / "fresh/bin/python"
    pip = (python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    call(*pip, f"{wheel}[law]", cwd=tmp_path)
    shown = call(tmp_path / "fresh/bin/waggle", "demo", cwd=tmp_path)
    # The rounds go to the error stream; the table is the result, with the shipped law first.
    scores = [line.split()[-3] for line in shown.splitlines() if line.startswith("score")]
    assert scores == ["1", "1"], shown


@pytest.mark.parametrize("name", ["nano-outcome", "smollm2"])
def test_a_law_is_a_distribution_of_its_own(name: str, tmp_path: Path) -> None:
    folder = name.replace("-", "_")
    wheel = built(ROOT / "distributions" / folder, tmp_path, ("-c", STORED))
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
    told = Parser().parsestr(archive.read(metadata).decode())
    assert told["Name"] == f"waggle-swarm-{name}" and told["Version"] == waggle.__version__
    (points,) = (n for n in archive.namelist() if n.endswith("/entry_points.txt"))
    assert f"{name} = waggle_{folder}:law".encode() in archive.read(points)
    law = shipped.manifest(shipped.folder(name))
    assert {f"waggle_{folder}/{file}" for file in (*law.files, shipped.LAW)} <= set(
        archive.namelist()
    )


@pytest.mark.parametrize("name", ["nano", "nano-outcome", "smollm2"])
def test_a_packed_law_is_whole_small_and_its_card_is_its_results(name: str) -> None:
    folder = shipped.folder(name)
    law = shipped.verify(folder)
    assert law.name == name
    weights = {p.name for p in folder.iterdir() if p.is_file() and p.suffix != ".py"}
    assert set(law.files) == weights - {shipped.LAW}
    assert all(stamp.bytes <= shipped.MAX_FILE for stamp in law.files.values())
    assert law.bytes <= shipped.MAX_WHOLE[law.kind]
    results = json.loads((folder / shipped.RESULTS).read_text(encoding="utf-8"))
    assert (folder / shipped.CARD).read_text(encoding="utf-8") == card(law, results)
