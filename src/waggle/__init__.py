"""Waggle: one anonymous local law for self-organizing LLM swarms."""

__version__ = "0.1.0"
