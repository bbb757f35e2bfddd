"""Plug-in files: one Python file brings a law, a metric or a world, to worker processes too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from waggle import plugin_files, plugins
from waggle.process_pool import process_pool

pytestmark = pytest.mark.usefixtures("clean_registry")

LAW = """
import sys
from waggle import law
from waggle.laws.controls import PrivateOnly


@law("bee")
class Bee(PrivateOnly):
    name = "bee"
"""


def write(folder: Path, text: str, name: str = "bee_laws.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_registers_under_its_own_name(tmp_path: Path) -> None:
    plugins.load_file(write(tmp_path, LAW))
    (entry,) = (e for e in plugins.entries("law") if e.name == "bee")
    assert entry == ("bee", "bee_laws:Bee", "bee_laws.py")
    assert plugins.get_law("bee").name == "bee"


def test_a_changed_file_may_be_loaded_again(tmp_path: Path) -> None:
    path = write(tmp_path, LAW)
    plugins.load_file(path)
    write(tmp_path, LAW + "    louder = True\n")
    os.utime(path, (0, 0))  # the compiled file of the first version is of another time
    plugins.load_file(path)
    assert plugins.get_law("bee").louder  # type: ignore[attr-defined]


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path, LAW)
    user = "import bee_laws\nfrom waggle import metric\n\n@metric('hum')\ndef hum(e): return 1.0\n"
    plugins.load_file(write(tmp_path, user, "hum.py"))
    plugins.load_file(tmp_path / "bee_laws.py")
    assert plugins.get_law("bee").name == "bee" and plugins.get_metric("hum")(None) == 1.0


def test_worker_processes_know_the_file(tmp_path: Path) -> None:
    plugins.load_file(write(tmp_path, LAW))
    with process_pool(1) as pool:
        assert "bee" in pool.submit(plugins.names, "law").result()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import sys\n\nsys.exit('no wings')\n", r"it called sys.exit\('no wings'\) \(bad.py:3\)"),
        ("1 / 0\n", r"ZeroDivisionError: division by zero \(bad.py:1\)"),
        ("raise ValueError('\\ud800')\n", r"ValueError: \? \(bad.py:1\)"),
        ("def\n", r"SyntaxError.*bad.py, line 1"),
        ("import no_such_library\n", r"No module named 'no_such_library' \(bad.py:1\)"),
        ("from waggle import law\n\nlaw('nano')(dict)\nlaw('nano')(list)\n", "already; rename"),
    ],
)
def test_a_file_that_fails_is_one_line_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path, text, "bad.py")
    with pytest.raises(plugins.PluginError, match=told) as caught:
        plugins.load_file(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    assert os.environ[plugin_files.FILES] == "", "no worker is told of a file that fails"


@pytest.mark.parametrize("name", ["nowhere.py", "notes.txt", "folder.py"])
def test_what_is_no_python_file_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, LAW, "notes.txt")
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(plugins.PluginError, match="name a Python file"):
        plugins.load_file(tmp_path / name)


def test_a_path_that_no_list_of_files_can_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"my{os.pathsep}laws").mkdir()
    with pytest.raises(plugins.PluginError, match="separates plug-ins; rename it"):
        plugins.load_file(write(tmp_path / f"my{os.pathsep}laws", LAW))
    assert "bee" not in plugins.names("law")


@pytest.mark.parametrize("name", ["json.py", "wave.py", "sys.py"])
def test_a_file_takes_no_name_of_another_module(tmp_path: Path, name: str) -> None:
    with pytest.raises(plugins.PluginError, match=r"is another module already.*another name"):
        plugins.load_file(write(tmp_path, LAW, name))


def test_a_package_that_leaves_the_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "import sys\nsys.exit()\n", "leaver.py")
    monkeypatch.syspath_prepend(tmp_path)
    entry = plugin_files.Entry("leaver", "leaver:Leaver", "waggle-leaver")
    monkeypatch.setattr(plugin_files, "installed", lambda kind: (entry,) if kind == "law" else ())
    told = plugins.broken("law")["leaver"]
    assert "of waggle-leaver cannot be imported" in told and "sys.exit() (leaver.py:2)" in told
