"""What ships is in the wheel: the laws' files are data of the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from waggle import shipped

ROOT = Path(__file__).parent.parent.parent


def _stand_in(source: str, target: str) -> None:
    """Copy a file, weights by name alone: to compress them takes longer than all the rest."""
    if source.endswith(".safetensors"):
        Path(target).write_bytes(b"x")
    else:
        shutil.copy2(source, target)


def test_the_wheel_holds_every_file_of_the_shipped_laws(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="needs hatchling to build a wheel")
    tree = tmp_path / "tree"
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tree / "src", ignore=skip, copy_function=_stand_in)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    # A planted law stands for those whose weights are not in the checkout.
    planted = tree / "src/waggle/shipped/planted"
    planted.mkdir()
    names = ("law.json", "config.json", "model-00001-of-00001.safetensors", "README.md")
    for name in names:
        (planted / name).write_bytes(b"x")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out")],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "out").glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    assert {f"waggle/shipped/planted/{name}" for name in names} <= held
    for name in shipped.NAMES:
        if shipped.present(name):
            files = shipped.manifest(shipped.folder(name)).files
            assert {f"waggle/shipped/{name}/{file}" for file in (*files, shipped.LAW)} <= held


@pytest.mark.parametrize("name", shipped.NAMES)
def test_a_shipped_law_is_whole_small_and_its_card_is_its_results(name: str) -> None:
    if not shipped.present(name):
        pytest.skip(f"the weights of {name} are not in this checkout")
    import json

    from waggle.report.model_card import card

    folder = shipped.folder(name)
    law = shipped.verify(folder)
    assert law.name == name
    assert set(law.files) == {p.name for p in folder.iterdir()} - {shipped.LAW}
    assert all(stamp.bytes <= shipped.MAX_FILE for stamp in law.files.values())
    assert law.bytes <= shipped.MAX_WHOLE[law.kind]
    results = json.loads((folder / shipped.RESULTS).read_text(encoding="utf-8"))
    assert (folder / shipped.CARD).read_text(encoding="utf-8") == card(law, results)
