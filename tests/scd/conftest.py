"""A very small student over a short tokenizer, a corpus of a few records, and one trained run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
import torch

from tests.backbones import save_backbone
from tests.scd.runs import with_onednn, with_warm_start
from waggle.corpus.curriculum import Curriculum
from waggle.corpus.settings import CorpusSettings, TransitionSettings
from waggle.corpus.store import Store
from waggle.corpus.teacher import label, make_teacher
from waggle.corpus.transitions import write
from waggle.models.nano import nano_tokenizer
from waggle.scd.config import Adaptation, Recipe, Run, StageOne, StageTwo
from waggle.scd.run.stages import Stages


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def same_products() -> Iterator[None]:
    """Compute products alike in all tests: torch gives oneDNN up for good after a failure."""
    with with_onednn():
        yield


@pytest.fixture(autouse=True, scope="session")
def imported() -> None:
    """Import what every student needs, and spare the collector, which is called after each arm."""
    import_module("peft")
    import_module("transformers.models.llama.modeling_llama")
    gc.collect()
    gc.freeze()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> ForkServerContext:
    """Let worker processes begin with what training imports, which takes each of them seconds.

    They come from one process that has imported it and nothing else; what they are given still has
    to be pickled. Processes that begin with nothing are in tests/test_process_pool.py.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["peft", "waggle.scd.run.factorial"])
    monkeypatch.setattr("waggle.process_pool._Alone", lambda: context)
    return context


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_backbone(tmp_path_factory.mktemp("backbone"), nano_tokenizer())


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    settings = CorpusSettings(
        tasks=("beacon",), bundles=2, validation=1, test=1, native=4, n=(6,), rounds=6
    )
    store = Store(folder)
    store.write("views", Curriculum(settings).examples(), settings.model_dump(mode="json"))
    label(store, make_teacher("expert", {}))
    moves = TransitionSettings(
        tasks=("beacon",), train=16, validation=8, probe=12, test=12, n=(6,), rounds=8, episodes=4
    )
    write(store, moves, make_teacher("expert", {}))
    return folder


@pytest.fixture(scope="session")
def recipe(backbone: Path) -> Recipe:
    return Recipe(
        name="test",
        backbone=str(backbone),
        max_context=4000,
        adaptation=Adaptation(rank=4, alpha=8, dropout=0.1),
        stage_one=StageOne(updates=4, batch=3, rate=1e-3, rate_warm_up=1),
        stage_two=StageTwo(
            updates=4, batch=3, transition_batch=2, rate=1e-3, warm_up=0, ramp=0,
            lambda_orbit=0.5, lambda_field=0.5,
        ),
        run=Run(device="cpu", dtype="float32", tokens_per_pass=100_000, evaluate_every=2,
                save_every=1, validation_records=4),
    )  # fmt: skip


@pytest.fixture(scope="session")
def trained(recipe: Recipe, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a warm start and the arm `scd`; tests read it and leave it as it is."""
    out = tmp_path_factory.mktemp("trained")
    stages = Stages(recipe, corpus, out, 0)
    with with_onednn():
        stages.warm_start()
        stages.arm("scd")
    return out


@pytest.fixture
def started(trained: Path, tmp_path: Path) -> Path:
    """A run folder of its own that begins with the warm start of `trained`."""
    return with_warm_start(tmp_path / "run", trained / "seed-0" / "warm-start")
