"""Garbage is collected between calls, not within them.

Decoding makes many small things that live as long as their row; looking through all of them again
and again finds nothing to give back, and a GPU waits meanwhile. Whoever decodes holds collection
off; callers that overlap without end let one through now and then. Invariant: when nobody decodes,
collection is as it was before.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

EVERY = 1024
"""Turns of an engine after which garbage is collected although somebody decodes."""

_lock = threading.Lock()
_holders = 0
_resume = False


@contextmanager
def held() -> Iterator[None]:
    """Hold collection off; several threads may, and the last one lets it go on."""
    global _holders, _resume
    with _lock:
        if _holders == 0:
            _resume = gc.isenabled()
            gc.disable()
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0 and _resume:
                gc.enable()


def breathe(turn: int) -> None:
    """Collect once in a while, where collection would be on if nobody held it off."""
    if turn % EVERY == 0 and _resume:
        gc.collect()
