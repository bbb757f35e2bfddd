"""The optional parts of the installation: which extra brings a library, and how to install it.

Every message about a missing library takes its command from here. The command works from any
folder: where the package is installed already, an installer adds only what the extra brings.
"""

from __future__ import annotations

from pathlib import Path

EXTRAS = {
    "llm": (
        "torch", "transformers", "peft", "accelerate", "safetensors", "gguf",
        "tokenizers", "jinja2", "huggingface_hub",
    ),
    "chat": ("httpx2",),
    "serve": ("starlette", "uvicorn"),
    "report": ("matplotlib", "pandas"),
    "dataset": ("pyarrow",),
}  # fmt: skip
"""Optional parts of the installation and the libraries they bring."""


def extra_of(module: str | None) -> str | None:
    """Return the extra that brings a module, or None."""
    top = (module or "").partition(".")[0]
    return next((name for name, libraries in EXTRAS.items() if top in libraries), None)


def install(extra: str) -> str:
    """Return the command that adds an extra, with the pinned torch where a checkout pins it."""
    pins = "-c constraints.txt " if Path("constraints.txt").is_file() else ""
    return f"pip install {pins}'waggle-swarm[{extra}]'"
