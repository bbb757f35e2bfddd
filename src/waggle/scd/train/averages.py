"""What an update logs: sums over its records, read from the device at once, as averages."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from waggle.scd.train.passes import Sums


def numbers(sums: Sums) -> dict[str, float]:
    """Read all sums at once."""
    kept = {name: value for name, value in sums.items() if isinstance(value, torch.Tensor)}
    read = torch.stack([value.detach().double() for value in kept.values()]).tolist()
    return {name: float(value) for name, value in sums.items() if name not in kept} | dict(
        zip(kept, read, strict=True)
    )


def averages(sums: Mapping[str, float]) -> dict[str, float]:
    """Turn the sums of an update into what is logged."""

    def mean(name: str, over: float) -> float:
        return sums.get(name, 0.0) / max(1.0, over)

    moves, decisions = sums.get("moves", 0.0), sums["pairs"]
    values = {
        "nll": mean("nll", sums["nll.tokens"]),
        "decision": mean("decision", decisions),
        "tokens": sums["tokens.read"],
        "tokens.run": sums["tokens.run"],
        "padding": mean("slots.padding", sums["slots"]),
        "passes": sums["passes"],
    }
    if moves:
        values["orbit"] = mean("orbit", decisions)
        values["orbit.accuracy"] = mean("orbit.hits", decisions)
        values["field"] = mean("field", moves)
        values["field.eventful"] = mean("field.eventful", sums["moves.eventful"])
    return values
