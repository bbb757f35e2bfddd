"""A tiny student, its corpus, and one thread."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="the benchmarks need the llm extra")

from tests.scd.conftest import backbone, corpus, one_thread, recipe

__all__ = ["backbone", "corpus", "one_thread", "recipe"]
