"""What the engine says a choice was sampled with is what training computes of it."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.backbones import save_backbone
from waggle.learn.config import Settings, training_cases
from waggle.learn.decisions import stack
from waggle.learn.losses import lay_out_choices, log_policy
from waggle.learn.luck import jobs_of
from waggle.learn.rollout import Player
from waggle.learn.start import find_start, open_student
from waggle.learn.updates import logits_of
from waggle.models.nano import nano_tokenizer
from waggle.scd.forward.ragged import lay_out

KINDS = [("constrained", 1.0), ("constrained", 1.7), ("free", 1.3)]


def differences(settings: Settings, tokens: int = 512) -> np.ndarray[Any, Any]:
    """Sample a batch; return by how much the log-probability of each choice differs."""
    start = find_start(settings)
    jobs = jobs_of(training_cases(settings, 0, 0), settings.replays, 0, 0)
    player = Player(start, settings)
    player._law.max_new_tokens = tokens
    outcomes = player.sample(None, jobs)
    found = stack([outcome.decisions for outcome in outcomes])
    student = open_student(start, settings, 0)
    ragged = lay_out(found.ids, found.lengths, found.prompts, device=student.device)
    shown = lay_out_choices(found, np.ones(len(found)), student.device)
    with torch.no_grad(), student.arithmetic():
        logp = log_policy(logits_of(student, ragged), shown, settings.temperature)
    taken = logp.gather(1, shown.taken.unsqueeze(1)).squeeze(1)
    difference: np.ndarray[Any, Any] = (taken - shown.sampled).abs().cpu().numpy()
    assert len(difference) > len(found), "there are several choices in a decision"
    return difference


@pytest.mark.parametrize(("mode", "temperature"), KINDS)
def test_the_ratio_of_what_was_just_sampled_is_one(
    tmp_path: Any, mode: str, temperature: float
) -> None:
    folder = save_backbone(tmp_path, nano_tokenizer())
    settings = Settings(
        tasks=("agentsnet/coloring",), n=(4,), rounds=1, start="scratch", backbone=str(folder),
        cases=1, replays=2, mode=mode, temperature=temperature, machine={"device": "cpu"},
    )  # fmt: skip
    assert differences(settings, tokens=24).max() < 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize(("mode", "temperature"), KINDS)
@pytest.mark.parametrize(("dtype", "near"), [("float32", 1e-3), ("bfloat16", 0.02)])
def test_on_cuda_the_ratio_of_what_was_just_sampled_is_near_one(
    mode: str, temperature: float, dtype: str, near: float
) -> None:
    """Of the shipped law; in bfloat16 the mean, since rounding differs between the two passes."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    settings = Settings(
        tasks=("agentsnet",), n=(8,), start="nano", cases=5, replays=4, mode=mode,
        temperature=temperature, machine={"device": "cuda", "dtype": dtype},
    )  # fmt: skip
    found = differences(settings)
    assert (found.max() if dtype == "float32" else found.mean()) < near
