"""Many episodes in lockstep under one law, so that small swarms fill the machine.

Every episode asks for its own batch; what all of them ask for at one time goes to the law as one
batch. Laws are batch-order independent, so each episode's record is what it would be alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from waggle.core.protocols import Law, Request
from waggle.core.record import Footer
from waggle.runtime.sync import Engine, Episode
from waggle.runtime.update import ask


def play_together(
    engines: Iterable[Engine], law: Law, width: int = 256
) -> Iterator[tuple[Engine, Footer]]:
    """Play episodes side by side and yield each when it ends.

    Args:
        engines: the episodes, opened lazily as room appears.
        law: answers all of them.
        width: how many requests one batch should hold at least, while episodes last.
    """
    waiting = iter(engines)
    running: list[tuple[Engine, Episode, Sequence[Request]]] = []
    while True:
        while sum(len(r) for _, _, r in running) < width:
            engine = next(waiting, None)
            if engine is None:
                break
            episode = engine.episode()
            try:
                running.append((engine, episode, next(episode)))
            except StopIteration as end:
                yield engine, end.value
        if not running:
            return
        decodes = ask(law, [request for _, _, requests in running for request in requests])
        still: list[tuple[Engine, Episode, Sequence[Request]]] = []
        start = 0
        for engine, episode, requests in running:
            answers = decodes[start : start + len(requests)]
            start += len(requests)
            try:
                still.append((engine, episode, episode.send(answers)))
            except StopIteration as end:
                yield engine, end.value
        running = still
