"""Rival libraries, where they are installed, decode what they are given: else all is noise."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import generate as bench_generate
from benchmarks.rivals import job as jobs
from benchmarks.rivals.job import Variant
from benchmarks.rivals.registry import RIVALS
from benchmarks.setup import Setup, prepare

ROWS, TOKENS = 3, 10
EXACT = ("float32", "F32")
"""What libraries call their weights as they are; with and without a kept prefix."""

pytestmark = pytest.mark.filterwarnings("default")  # libraries warn about one another


@pytest.fixture(scope="module")
def setup() -> Setup:
    return prepare("tiny-random", "cpu", "float32", (ROWS, 1), 70, 64, TOKENS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("converted")


def variants(name: str, setup: Setup, folder: Path) -> list[Variant]:
    for module in RIVALS[name].modules:
        pytest.importorskip(module, reason="needs the extra `rivals`")
    return RIVALS[name].variants(jobs.job(setup, folder))


@pytest.mark.parametrize("name", list(RIVALS))
@pytest.mark.parametrize("forced", [True, False])
def test_in_float32_answers_are_those_of_generate(
    name: str, forced: bool, setup: Setup, folder: Path
) -> None:
    """With batches in a row: what is kept of one must not be seen in the next."""
    setup.forced = forced
    wanted = [bench_generate._generate(setup, {}, w, TOKENS) for w in (setup.work, setup.fresh)]
    exact = [v for v in variants(name, setup, folder) if v.precision in EXACT]
    assert {v.shares for v in exact} == {False, True}
    for variant in exact:
        with variant.open() as decode:
            found: list[Any] = [decode(w, TOKENS) for w in (setup.work, setup.fresh)]
            short = decode(setup.warm[:ROWS], 1)
        assert found == wanted, variant.configuration
        assert {len(answer) for answer in short} <= {0, 1}


@pytest.mark.parametrize("name", list(RIVALS))
def test_every_configuration_decodes(name: str, setup: Setup, folder: Path) -> None:
    setup.forced = True
    for variant in variants(name, setup, folder):
        with variant.open() as decode:
            found = decode(setup.work, TOKENS)
        assert [len(answer) for answer in found] == [TOKENS] * ROWS, variant.configuration
        words = setup.model.config.vocab_size
        assert all(0 <= token < words for answer in found for token in answer)
    assert RIVALS[name].version
