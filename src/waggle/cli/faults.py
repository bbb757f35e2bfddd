"""One line for every mistake: what was wrong and what to do about it."""

from __future__ import annotations

from cyclopts import CycloptsError
from pydantic import ValidationError

from waggle.core.errors import WaggleError

EXTRAS = {
    "llm": ("torch", "transformers", "peft", "accelerate", "safetensors", "gguf"),
    "chat": ("openai",),
    "serve": ("starlette", "uvicorn"),
    "report": ("matplotlib",),
    "symmetry": ("igraph",),
    "dataset": ("pyarrow",),
}
"""Optional parts of the installation and the packages they bring."""


def extra(module: str | None) -> str | None:
    """Return the extra that brings a module, or None."""
    top = (module or "").partition(".")[0]
    return next((name for name, packages in EXTRAS.items() if top in packages), None)


def describe(error: BaseException) -> str:
    """Return the one line a user reads."""
    if isinstance(error, CycloptsError):
        return _usage(error)
    if isinstance(error, ModuleNotFoundError):
        fix = f"pip install -c constraints.txt 'waggle-swarm[{extra(error.name)}]'"
        return f"this needs {error.name}, which is not installed; {fix}"
    if isinstance(error, OSError) and not isinstance(error, WaggleError):
        where = f" {str(error.filename)!r}" if error.filename else ""
        return _line(f"cannot use{where}: {error.strerror or error}; give another path or fix it")
    return _line(str(error) or type(error).__name__)


def invalid(error: ValidationError, prefix: str) -> str:
    """Return one line for the first mistake pydantic found, named as the option `prefix.FIELD`."""
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
    return f"{_line(str(error)).rstrip('.')}; see `waggle --help`"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _line(text: str) -> str:
    return " ".join(text.split())
