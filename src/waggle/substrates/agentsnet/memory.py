"""What nodes have told one another: the only way in which anything about a neighbour is known.

Every entry stems from a delivered deposit of a law. A deposit of a node's own claim states the
answer it acts on in that update; a relayed claim carries what the relaying node was told.
Invariant: without deposits this memory stays empty, so no fact about others can reach a view.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

_K = TypeVar("_K")


class Answer(NamedTuple):
    """A task action in world words: the verb, and the partner node for a match."""

    action: str
    target: int | None = None


class Statement(NamedTuple):
    """What the holder of a claim said: which update, how surely, and the answer it acted on."""

    holder: int
    round: int
    sure: int
    answer: Answer | None


@dataclass
class Memory:
    """What one node has heard and said, in world words."""

    claims: dict[str, Statement] = field(default_factory=dict)
    """Newest statement by claim, own claim excluded."""
    contacts: dict[int, Statement] = field(default_factory=dict)
    """Newest statement that a contact made about itself."""
    spoken: dict[int, Statement] = field(default_factory=dict)
    """Newest statement about itself that this node made to each contact."""
    shared: dict[str, set[int]] = field(default_factory=dict)
    """Contacts that know a claim: they were told it from here, or told it here."""

    def hear(self, claim: str, sender: int, statement: Statement) -> None:
        """Take in one delivered statement; an older one never replaces a newer one."""
        self.shared.setdefault(claim, set()).add(sender)
        _keep(self.claims, claim, statement)
        if statement.holder == sender:
            _keep(self.contacts, sender, statement)

    def say(self, claim: str, receiver: int, statement: Statement, own: bool) -> None:
        """Note one delivered statement of this node."""
        self.shared.setdefault(claim, set()).add(receiver)
        if own:
            _keep(self.spoken, receiver, statement)


def _keep(table: dict[_K, Statement], key: _K, statement: Statement) -> None:
    known = table.get(key)
    if known is None or known.round <= statement.round:
        table[key] = statement
