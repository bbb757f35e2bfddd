"""The error vocabulary, by boundary.

A bad decode, message or answer of an endpoint is data and never raises; what raises is a bad
configuration, a bad file, an endpoint that answers nothing from the start, or a breach of the
anonymous contract by a substrate. Every message names the fix, and
the command line prints it as one line with exit code 2.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class WaggleError(Exception):
    """Base of every error a user may see; its text is one line that names the fix."""


class ConfigError(WaggleError):
    """A case, option or recipe that cannot be run as given."""


class ContractError(WaggleError):
    """A substrate or law broke the anonymous contract (a leaking view, an unbounded field)."""


class RecordError(WaggleError):
    """A record file that is missing, cut, foreign or not what it claims to be."""


class EndpointError(WaggleError):
    """A chat endpoint that did not answer its first question; nothing was played with it."""


class SeedError(ConfigError):
    """A seed used for a purpose its range does not allow."""


def mistake(kind: str, message: str, got: object) -> str:
    """Say what is wrong with one key of a file, and how to mend it, by the kind pydantic names."""
    if kind == "extra_forbidden":
        return "there is no such key here; correct its name or remove it"
    if kind == "missing":
        return "is missing; add it"
    return f"{message}; got {got!r:.60}"


def first_mistake(errors: Sequence[Mapping[str, Any]]) -> tuple[tuple[Any, ...], str]:
    """Return where the first mistake of a file is, and what is wrong there.

    A key that is missing beside one that nobody knows was misspelled: the latter is told.
    """
    first = errors[0]
    beside = [e for e in errors if e["loc"][:-1] == first["loc"][:-1]]
    strange = next((e for e in beside if e["type"] == "extra_forbidden"), None)
    if first["type"] != "missing" or strange is None:
        return first["loc"], mistake(first["type"], first["msg"], first.get("input"))
    missing = [str(e["loc"][-1]) for e in beside if e["type"] == "missing"]
    wrong = mistake(strange["type"], strange["msg"], strange.get("input"))
    return strange["loc"], wrong + suggest(str(strange["loc"][-1]), missing)


def suggest(name: str, known: list[str]) -> str:
    """Return `"; did you mean 'x'?"` for the closest known name, or an empty string."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
