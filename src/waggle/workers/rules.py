"""Workers without a model: the substrate's own rule, and the same with slips.

Both are controls. `native` behind the worker's door shows what the door itself costs and changes;
`slips` is wrong now and then, as a model is, and draws anew at every call.
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
    """The substrate's own answer, and now and then a slip: another action, or a number off by one.

    Args:
        rate: share of calls that slip.
    """

    sampled = True

    def __init__(self, rate: float = 0.1) -> None:
        if not 0 <= rate <= 1:
            raise ConfigError(f"rate must be from 0 to 1, not {rate}")
        self._rate = rate

    def __call__(self, work: Work) -> Json:
        """Answer, or slip."""
        right = native(work)
        if (work.entropy % 10_000) / 10_000 >= self._rate:
            return right
        others = [action for action in work.actions if action != right]
        if others:
            return others[work.entropy // 10_000 % len(others)]
        return _slipped(right)


def _slipped(value: Json) -> Json:
    """Return an answer like another one, but wrong."""
    if isinstance(value, int | float):
        return int(value) + 1
    if isinstance(value, list) and value:
        return [*value[:-1], _slipped(value[-1])]
    if isinstance(value, dict) and value:
        last = list(value)[-1]
        return {**value, last: _slipped(value[last])}
    return f"{value}?"
