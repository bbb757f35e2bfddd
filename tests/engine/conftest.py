"""One tiny random model for every engine test."""

from typing import Any

import pytest

pytest.importorskip("torch", reason="the engine needs the llm extra")

import torch

from waggle.core.forms import IntRange
from waggle.engine.constraint.grammar import Grammar, chain, choice
from waggle.models.nano import tiny_random


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tiny products gain nothing from threads and suffer when cores are shared."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny() -> tuple[Any, Any]:
    return tiny_random()


@pytest.fixture(scope="session")
def record_grammar() -> Grammar:
    commit = choice(chain('{"claim":"', choice("c1", "c2", "c10"), '"}'), "null")
    body = chain(
        '{"deposits":[',
        choice("", chain('{"to":"', choice("h1", "h2"), '","ttl":', IntRange(0, 12), "}")),
        '],"commit":',
        commit,
        "}",
    )
    return Grammar(body)
