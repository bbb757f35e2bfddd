"""A training is named by the terms that taught more than imitation."""

from __future__ import annotations

import pytest

from waggle.core.order import Order
from waggle.scd.config import StageTwo, objective


@pytest.mark.parametrize(
    ("order", "arm", "name"),
    [
        ("canonical", "scd", "imitation in canonical order, with the field term"),
        ("canonical", "orbit", "imitation in canonical order"),
        ("canonical", "decision (warm start)", "imitation in canonical order"),
        ("shuffled", "scd", "Swarm-Consistent Distillation"),
        ("shuffled", "orbit", "imitation in shuffled order, with the orbit term"),
        ("shuffled", "field", "imitation in shuffled order, with the field term"),
    ],
)
def test_only_terms_that_taught_more_than_imitation_are_named(
    order: Order, arm: str, name: str
) -> None:
    assert objective(order, StageTwo(), arm) == name
    assert "field" not in objective(order, StageTwo(lambda_field=0), arm)
