"""One-line error messages for users: what was wrong and how to fix it."""

from __future__ import annotations

from cyclopts import CycloptsError, MissingArgumentError, UnusedCliTokensError
from pydantic import ValidationError

from waggle.core.errors import WaggleError
from waggle.extras import missing


def describe(error: BaseException) -> str:
    """Return the one-line message about an error."""
    if isinstance(error, CycloptsError):
        return _usage(error)
    if isinstance(error, ModuleNotFoundError):
        return missing(error.name) or f"this needs {error.name}"
    if isinstance(error, OSError) and not isinstance(error, WaggleError):
        where = f" {str(error.filename)!r}" if error.filename else ""
        return _line(f"cannot use{where}: {error.strerror or error}; give another path or fix it")
    return _line(str(error) or type(error).__name__)


def invalid(error: ValidationError, prefix: str) -> str:
    """Return one line for the first error of pydantic, named as the option `prefix.FIELD`."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part).replace("_", "-") for part in first["loc"])
    more = error.error_count() - 1
    also = f" (and {more} more)" if more else ""
    option = f"{prefix}.{name}" if name else prefix
    return _line(f"{option}: {first['msg']}; got {_short(first['input'])}{also}")


def _usage(error: CycloptsError) -> str:
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        argument = getattr(error, "argument", None)
        return invalid(cause, argument.name if argument is not None else "option")
    called = " ".join(("waggle", *(error.command_chain or ())))
    text = _mistake(error, called)
    return f"{text}{' See' if text.endswith('?') else '; see'} `{called} --help`"


def _mistake(error: CycloptsError, called: str) -> str:
    """Describe missing or surplus arguments; for other errors, return the parser's message."""
    argument = error.argument
    if isinstance(error, MissingArgumentError) and argument:
        if argument.name.startswith("-"):
            return f"{error.keyword or argument.name} needs a value"
        return f"`{called}` needs {argument.name}"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"`{called}` has no use for {' '.join(error.unused_tokens)!r}"
    return _line(str(error)).rstrip(".")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _line(text: str) -> str:
    return " ".join(text.split())
