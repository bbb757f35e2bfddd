"""The exceptions of the package.

A bad decode, message or endpoint answer is data and never raises. Exceptions are raised for a bad
configuration, a bad file, an endpoint that fails its first request, or a substrate or law that
breaks the anonymous contract. Every message names the fix, and the command line prints it as one
line with exit code 2.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class WaggleError(Exception):
    """Base class of every error that a user may see; its text is one line that names the fix."""


class ConfigError(WaggleError):
    """Raised when a case, option or recipe cannot be run as given."""


class ContractError(WaggleError):
    """Raised when a substrate or law breaks the anonymous contract, e.g. by an unbounded field."""


class RecordError(WaggleError):
    """Raised when a record file is missing, truncated, foreign or inconsistent."""


class EndpointError(WaggleError):
    """Raised when a chat endpoint fails its first request; no episode has been played."""


class SeedError(ConfigError):
    """Raised when a seed is used for a purpose that its range does not allow."""


def mistake(kind: str, message: str, got: object) -> str:
    """Describe the error in one key of a file, and its fix, from pydantic's error type `kind`."""
    if kind == "extra_forbidden":
        return "there is no such key here; correct its name or remove it"
    if kind == "missing":
        return "is missing; add it"
    return f"{message}; got {got!r:.60}"


def first_mistake(errors: Sequence[Mapping[str, Any]]) -> tuple[tuple[Any, ...], str]:
    """Return the location and a description of the first mistake in a file.

    A missing key next to an unknown one was probably misspelled, so the unknown one is reported.
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
