"""eager: write the proposal's evidence wherever the lot is largest."""

from collections.abc import Sequence

from waggle.core.protocols import Decode, Request
from waggle.core.schema import Decision, View
from waggle.laws import moves


class Eager:
    """A law with an option."""

    name = "eager"

    def __init__(self, shy: bool = False) -> None:
        self._shy = shy

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        return [Decode(self._decision(request.view)) for request in requests]

    def _decision(self, view: View) -> Decision:
        evidence, channel = moves.best_evidence(view), moves.by_lot(view)
        if self._shy or evidence is None or channel is None:
            return moves.act(view)
        return moves.act(view, moves.fresh(evidence, channel))
