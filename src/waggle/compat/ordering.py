"""Views in any order for a law that reads canonical ones, and its answers in the caller's names.

Canonical order is an engine's choice, made where a view is built; a server cannot ask its callers
for it, so it orders and names each view itself. Invariant: what the law sees is the canonical view
of the orbit, whatever order and names it arrived in, and no name of that view reaches the caller.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from waggle.core.canon import encode_decision
from waggle.core.decode import parse
from waggle.core.naming import Renaming
from waggle.core.order import canonical
from waggle.core.protocols import Decode, Law, Request


class Ordered(NamedTuple):
    """A request as its law reads it, and the renaming that led there; None if there was none."""

    request: Request
    naming: Renaming | None


def order_for(law: Law, request: Request) -> Ordered:
    """Put a request into the order its law was made for.

    Raises:
        ContractError: for a view with more traces than a view may have.
    """
    if getattr(law, "order", "shuffled") != "canonical":
        return Ordered(request, None)
    view, naming = canonical(request.view)
    previous = _renamed(request.previous, naming)
    return Ordered(Request(view, request.entropy, request.feedback, previous), naming)


def answer_in(naming: Renaming | None, decode: Decode) -> Decode:
    """Say an answer in the names the request came in."""
    if naming is None:
        return decode
    back, output = naming.inverse(), decode.output
    if isinstance(output, str):
        return Decode(_renamed(output, back), decode.usage)
    return Decode(back.decision(output), decode.usage)


def _renamed(text: str, naming: Renaming) -> str:
    """Rename the record in a text.

    A broken record stays one: what could be read of it is renamed, and the codes of what is wrong
    are put under a key that no record has. A text in which nothing can be read is left as it is.
    """
    parsed = parse(text)
    if parsed.salvage is None:
        return text
    record = encode_decision(naming.decision(parsed.salvage))
    if parsed.decision is not None:
        return record.decode()
    broken = {**msgspec.json.decode(record, type=dict[str, object]), "invalid": parsed.codes}
    return msgspec.json.encode(broken).decode()
