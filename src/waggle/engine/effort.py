"""What drafts cost the host, measured while it drafts.

Whether drafts pay depends on how fast this host makes them; that is seen, not known beforehand. A
single answer says little (the first of a kind are dear, and a machine has other things to do), so
estimates move slowly, and go back to the usual while nothing is drafted. Invariant: speed alone
depends on them; but which tokens share a pass follows from them, so that on a GPU in bfloat16
near-ties may fall otherwise from run to run. On a CPU nothing is steered by them.
"""

from __future__ import annotations

ANSWER = 0.25e-3
"""Seconds for the beginning of an answer, as usual: its grammar and the first draft."""
ROW = 35e-6
"""Seconds for a row in a pass, as usual: what was said is followed, what may come is guessed."""
GIVEN = 0.25e-3
"""Seconds for an answer that comes with its prompt, as usual: foretold, spelled and laid out."""
TOKENS = 300.0
"""Own tokens of a prompt, as usual."""
LENGTH = 60.0
"""Tokens of an answer, as usual."""
SLOWLY = 256
"""Rows after which an estimate has mostly changed."""
FORGOTTEN = 16
"""So many times as many bring it back to the usual."""


class Effort:
    """Seconds of the host per drafted answer and per drafted row of a pass."""

    def __init__(self) -> None:
        self.answer = ANSWER
        self.row = ROW
        self.tokens = TOKENS
        """Own tokens of a prompt: while they are run, the beginning of an answer is drafted."""
        self.given = GIVEN
        self.length = LENGTH
        self.stride = 1.0
        """Tokens that rolled rows say in a step where they try what they recall."""

    def opened(self, seconds: float, tokens: int) -> None:
        """Note the beginning of a drafted answer, and how long its prompt is."""
        self.answer = _nearer(self.answer, seconds, SLOWLY)
        self.tokens = _nearer(self.tokens, tokens, SLOWLY)

    def answered(self, seconds: float, rows: int) -> None:
        """Note what the drafted rows of a pass took together."""
        for _ in range(rows):
            self.row = _nearer(self.row, seconds / rows, SLOWLY)

    def foretold(self, seconds: float) -> None:
        """Note an answer that came with its prompt."""
        self.given = _nearer(self.given, seconds, SLOWLY)

    def closed(self, tokens: int) -> None:
        """Note how long an answer was."""
        self.length = _nearer(self.length, tokens, SLOWLY)

    def recalled(self, tokens: int, steps: int) -> None:
        """Note what rows said that tried what they recalled."""
        for _ in range(min(steps, SLOWLY)):
            self.stride = _nearer(self.stride, tokens / steps, SLOWLY)

    def rested(self) -> None:
        """Note an answer that was not drafted."""
        self.answer = _nearer(self.answer, ANSWER, FORGOTTEN * SLOWLY)
        self.row = _nearer(self.row, ROW, FORGOTTEN * SLOWLY)
        self.given = _nearer(self.given, GIVEN, FORGOTTEN * SLOWLY)


def _nearer(old: float, seen: float, slowly: int) -> float:
    """Return an estimate a little nearer to what was seen; one that is far off counts less."""
    return old + (min(seen, 3 * old) - old) / slowly
