"""Optional dependencies: which extra provides a library, and how to install it.

Every message about a missing library takes its command from here. The command works from any
folder: if the package is already installed, the installer adds only the libraries of the extra.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

EXTRAS = {
    "law": ("torch", "transformers", "safetensors", "tokenizers", "jinja2"),
    "llm": (
        "torch", "transformers", "peft", "accelerate", "safetensors", "gguf",
        "tokenizers", "jinja2", "huggingface_hub",
    ),
    "chat": ("httpx2",),
    "serve": ("starlette", "uvicorn"),
    "report": ("matplotlib", "pandas", "pillow"),
    "dataset": ("pyarrow",),
    "pettingzoo": ("pettingzoo", "gymnasium"),
    "otel": ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
}  # fmt: skip
"""Extras and the libraries that each of them provides; smaller extras come first."""


class Use(NamedTuple):
    """The purpose of an extra."""

    serves: str
    without: str
    """What still works without it."""


USES = {
    "law": Use("the law nano, local models, training", "rules such as `--law expert` play"),
    "llm": Use("adapters such as smollm2, hub downloads, conversion", "`--law nano` plays"),
    "chat": Use("models behind an endpoint (`--law chat`)", "`--law nano` and rules play"),
    "serve": Use("`waggle serve`, `waggle view`", "`waggle run` and `waggle show` work"),
    "report": Use("figures, plots, data frames, `waggle gif`", "`waggle report` writes its tables"),
    "dataset": Use("AgentsNet's own parquet file", "its graphs are generated"),
    "pettingzoo": Use("worlds as PettingZoo environments", "`waggle run` plays them"),
    "otel": Use("`waggle run --otel`", "`waggle run` keeps the record"),
}
"""What each extra is for, and what works without it."""


def extra_of(module: str | None) -> str | None:
    """Return the smallest extra that provides a module, or None."""
    top = (module or "").partition(".")[0]
    brought = {name: [lib.partition("-")[0] for lib in libs] for name, libs in EXTRAS.items()}
    return next((name for name, tops in brought.items() if top in tops), None)


def missing(module: str | None) -> str | None:
    """Return one line on the extra that provides a module and what works without, or None."""
    extra = extra_of(module)
    if extra is None:
        return None
    return f"this needs {module}; add it with `{install(extra)}`; {USES[extra].without} without it"


def install(extra: str) -> str:
    """Return the command that installs an extra, with the pinned torch if a checkout pins it."""
    pins = "-c constraints.txt " if Path("constraints.txt").is_file() else ""
    return f"pip install {pins}'waggle-swarm[{extra}]'"
