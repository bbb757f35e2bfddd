"""Workers without a model: the substrate's own rule, and the same rule with slips.

Both are controls. `native` as a worker shows what the worker interface itself costs and changes;
`slips` is occasionally wrong, as a model is, with a new draw at every call.
"""

from __future__ import annotations

from waggle.core.errors import ConfigError
from waggle.core.schema import Json
from waggle.core.worker import Work


def native(work: Work) -> Json:
    """Answer as the substrate itself would."""
    if work.native is None:
        raise ConfigError(f"{work.task} has no rule of its own; hire another worker")
    return work.native()


class Slips:
    """The substrate's own answer with occasional slips: another action, or a number off by one.

    Args:
        rate: share of calls that slip.
    """

    sampled = True

    def __init__(self, rate: float = 0.1) -> None:
        if not 0 <= rate <= 1:
            raise ConfigError(f"rate must be from 0 to 1, not {rate}")
        self._rate = rate

    def __call__(self, work: Work) -> Json:
        """Return the substrate's answer, or a slip."""
        right = native(work)
        if (work.entropy % 10_000) / 10_000 >= self._rate:
            return right
        others = [action for action in work.actions if action != right]
        if others:
            return others[work.entropy // 10_000 % len(others)]
        return _slipped(right)


def _slipped(value: Json) -> Json:
    """Return a wrong answer of the same form as a right one."""
    if isinstance(value, int | float):
        return int(value) + 1
    if isinstance(value, list) and value:
        return [*value[:-1], _slipped(value[-1])]
    if isinstance(value, dict) and value:
        last = list(value)[-1]
        return {**value, last: _slipped(value[last])}
    return f"{value}?"
