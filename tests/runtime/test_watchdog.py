"""A law that hangs or runs out is one line of its episode; the watchdog changes nothing else."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress

import pytest

from waggle import plugin_files
from waggle.core.errors import ConfigError, ContractError
from waggle.core.protocols import Case, Decode, Request
from waggle.laws.heuristic import Heuristic
from waggle.runtime import watchdog
from waggle.runtime.sync import play
from waggle.substrates.beacon import Beacon

CASE = Case("beacon", "beacon", 4, 10_000, 2)


class Hanging:
    """Waits for ever, and swallows every exception a law may catch."""

    name = "hanging"

    def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
        while True:
            with suppress(Exception):
                time.sleep(60)


def test_a_law_that_hangs_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(watchdog.SECONDS, "0.05")
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ContractError, match=r"law 'hanging' took over 0\.05 s for 4 requests.*;"):
        play(Beacon().open(CASE), Hanging(), CASE)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (StopIteration("empty"), "StopIteration: empty"),
        (SystemExit(3), r"it called sys\.exit\(3\)"),
    ],
)
def test_a_law_that_runs_out_or_leaves_is_one_line_and_not_the_end_of_the_episode(
    error: BaseException, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_files, "decorating", {__name__})  # as a plug-in would be

    class Leaving:
        name = "leaving"

        def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
            raise error

    line = rf"law 'leaving' failed: {told} \(test_watchdog\.py:\d+\)"
    with pytest.raises(ContractError, match=line):
        play(Beacon().open(CASE), Leaving(), CASE)


def test_a_law_in_time_plays_the_same_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    free = play(Beacon().open(CASE), Heuristic(), CASE)
    monkeypatch.setenv(watchdog.SECONDS, "60")
    assert play(Beacon().open(CASE), Heuristic(), CASE) == free


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--watchdog takes seconds"):
        watchdog.limit(text)
    assert watchdog.limit("0") == watchdog.limit("") == 0.0
