"""Drafts for lossless speculation: what the answer will probably say next.

Two sources, both free of model steps: tokens a skeleton grammar forces, and continuations already
seen in this prompt or in sibling answers. A draft is only a proposal; the engine accepts exactly
the tokens the model's own argmax confirms, so drafts change speed and never output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from waggle.engine.constraint import Walk

ORDER = 3
"""Tokens of context that select a remembered continuation; two serve where three are new."""
LONGEST = 15
"""Longest draft: with the token before it, a power of two, the shape steps are captured in."""
MAX_REMEMBERED = 200_000


class Echo:
    """A bounded memory of which token followed which context, latest first."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, ...], int] = {}

    def observe(self, tokens: Sequence[int]) -> None:
        """Remember every continuation in a run of tokens."""
        if len(self._next) > MAX_REMEMBERED:
            self._next.clear()
        pairs = pairwise(tokens)
        self._next.update(zip(pairs, tokens[2:], strict=False))
        triples = zip(tokens, tokens[1:], tokens[2:], strict=False)
        self._next.update(zip(triples, tokens[3:], strict=False))

    def guess(self, context: Sequence[int]) -> int | None:
        """Return what last followed this context, longest match first."""
        found = self._next.get(tuple(context[-ORDER:]))
        return self._next.get(tuple(context[-2:])) if found is None else found


class Drafter:
    """Proposes the next tokens of one answer."""

    def __init__(self, siblings: Echo, prompt: Sequence[int], walk: Walk | None) -> None:
        self._siblings = siblings
        self._own = Echo()
        self._own.observe(prompt)
        self._walk = walk
        self._recent = list(prompt[-ORDER:])
        self.limit = LONGEST // 2

    def follow(self, tokens: Sequence[int]) -> None:
        """Note tokens the model confirmed."""
        self._recent = [*self._recent, *tokens]
        self._own.observe(self._recent)
        self._recent = self._recent[-ORDER:]
        if self._walk is not None:
            for token in tokens:
                self._walk.take(token)

    def learn(self, proposed: int, accepted: int) -> None:
        """Lengthen drafts while they are confirmed, shorten them when they are not."""
        if proposed and accepted == proposed:
            self.limit = min(2 * self.limit + 1, LONGEST)
        elif proposed:
            self.limit = max(2, accepted + 1)

    def propose(self, room: int) -> list[int]:
        """Return a draft that continues the answer, at most `room` tokens."""
        limit = min(self.limit, room)
        draft: list[int] = []
        recent = self._recent
        walk = self._walk
        kept = walk.state if walk is not None else None
        while len(draft) < limit:
            step = self._next(walk, recent)
            if not step:
                break
            draft.extend(step)
            recent = [*recent, *step][-ORDER:]
            if walk is not None:
                for token in step:
                    walk.take(token)
        if walk is not None:
            walk.state = kept
        return draft[:limit]

    def _next(self, walk: Walk | None, recent: list[int]) -> list[int]:
        options = walk.options() if walk is not None and not walk.lost else None
        if options is not None and options.run:
            return list(options.run)
        for memory in (self._own, self._siblings):
            guess = memory.guess(recent)
            if guess is not None and (options is None or guess in options.tokens):
                return [guess]
        return []
