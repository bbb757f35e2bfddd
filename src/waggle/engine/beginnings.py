"""How prompts go on behind their prefix: what all of them say next is run once, too.

Who makes prompts cuts them where the contract ends. The next words of the chat and of the view are
mostly the same for every node; the first prompts behind a prefix show how many. Invariant: prefix
and tail together are the prompt, token by token.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from waggle.engine.request import Prompt

ENOUGH = 4
"""Prompts that show what all of them have in common."""
LEAST = 8
"""Tokens that are worth a prefix of their own."""
MOST = 64
"""Prefixes that are remembered."""

Tokens = tuple[int, ...]


class Beginnings:
    """Longer prefixes, by those that prompts came with; several threads may ask."""

    def __init__(self) -> None:
        self._longer: OrderedDict[Tokens, Tokens] = OrderedDict()
        self._door = threading.Lock()

    def stretched(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Return prompts with what is known to follow their prefixes moved into them."""
        groups: dict[int, list[Prompt]] = {}
        for prompt in prompts:
            groups.setdefault(id(prompt.prefix), []).append(prompt)
        with self._door:
            longer = {key: self._learnt(group) for key, group in groups.items()}
        return [_moved(prompt, longer[id(prompt.prefix)]) for prompt in prompts]

    def _learnt(self, group: Sequence[Prompt]) -> Tokens:
        """Return the longer prefix of prompts that share one; learn from many of them.

        One that most of them do not begin with is shortened, which costs nothing: its keys are a
        part of those that are kept. None is made later than a prefix's first prompts, since it
        would have to be run once more.
        """
        prefix = group[0].prefix
        known = self._longer.get(prefix)
        if known is None:
            known = prefix
            if prefix and len(group) >= ENOUGH:
                known = _common(prefix, [prompt.tail for prompt in group])
        elif len(group) >= ENOUGH:
            extra = known[len(prefix) :]
            if 2 * sum(_begins(prompt, extra) for prompt in group) < len(group):
                known = _common(prefix, [extra, *(prompt.tail for prompt in group)])
        self._longer[prefix] = known
        self._longer.move_to_end(prefix)
        while len(self._longer) > MOST:
            self._longer.popitem(last=False)
        return known


def _begins(prompt: Prompt, extra: Tokens) -> bool:
    """Whether a prompt goes on this way; one token must be left to it."""
    return len(prompt.tail) > len(extra) and tuple(prompt.tail[: len(extra)]) == extra


def _common(prefix: Tokens, tails: Sequence[Sequence[int]]) -> Tokens:
    """Return a prefix with what all tails begin with, or as it is where that is little."""
    ends = [tuple(tail[:-1]) for tail in tails]
    pairs = zip(min(ends), max(ends), strict=False)  # what these two share lies between them, too
    shared = [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return (*prefix, *shared) if len(shared) >= LEAST else prefix


def _moved(prompt: Prompt, longer: Tokens) -> Prompt:
    extra = longer[len(prompt.prefix) :]
    if not extra or not _begins(prompt, extra):
        return prompt
    return replace(prompt, prefix=longer, tail=prompt.tail[len(extra) :])
