"""The command tree: help, suggestions, and exit codes and streams of a real process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import Command, Said, refused
from waggle.cli.main import COMMANDS, GROUPS, HEADINGS


def process(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    return subprocess.run(
        [sys.executable, "-m", "waggle", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_run_and_replay(tmp_path: Path) -> None:
    ran = process("run", "beacon", "-n", 16, "--shock", "--engine", "event", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    record = ran.stdout.splitlines()[-1].removeprefix("record: ").strip()
    assert record.startswith("runs/") and (tmp_path / record).is_file()
    assert process("replay", record, cwd=tmp_path).returncode == 0


def test_mistakes_have_exit_code_2_and_no_traceback(tmp_path: Path, waggle: Command) -> None:
    done = process("fly", cwd=tmp_path)
    refused(Said(done.returncode, done.stdout, done.stderr))
    refused(waggle("run", "nothing"))
    refused(waggle("run", "beacon", "-n", "0"))


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m waggle list | head -n 1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "Substrates" and done.stderr == ""


MACHINE = {
    "run", "list", "replay", "doctor", "check substrate", "check law", "check record",
    "check vectors", "check graphs", "bound silo", "bound swarmbench", "bench runtime",
    "bench swarmbench", "bench silo", "bench engine",
}  # fmt: skip
"""Commands with machine output."""


def test_an_unknown_command_gets_a_suggestion(waggle: Command) -> None:
    assert "did you mean 'replay'" in refused(waggle("repaly", "x"))


def test_an_option_before_the_command_is_refused(waggle: Command) -> None:
    assert "no option '--verson' before a command" in refused(waggle("--verson"))
    assert waggle("--version").code == 0


def test_the_word_help_asks_for_help(waggle: Command) -> None:
    assert waggle("help").out == waggle("--help").out
    assert waggle("help", "check", "law").out == waggle("check", "law", "--help").out
    assert "no command 'nothing'" in refused(waggle("help", "nothing"))


def test_the_overview_names_every_command(waggle: Command) -> None:
    for words in ([], *([group] for group in GROUPS)):
        said = waggle(*words, "--help")
        assert said.code == 0
        here = [c.split()[-1] for c in COMMANDS if c.split()[:-1] == words]
        assert here and all(name in said.out for name in here)


def test_every_command_has_its_own_help(waggle: Command) -> None:
    for name in COMMANDS:
        said = waggle(*name.split(), "--help")
        assert said.code == 0, said
        assert f"Usage: waggle {name}" in said.out
        assert "--json" in said.out or name not in MACHINE, name


def test_every_command_has_a_place_in_the_overview() -> None:
    listed = [name for names in HEADINGS.values() for name in names]
    assert sorted(listed) == sorted({name.split()[0] for name in COMMANDS})
