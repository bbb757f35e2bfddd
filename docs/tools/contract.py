"""Write docs/views-and-decisions.md: what a law reads and writes, and when a decision is legal.

    python docs/tools/contract.py docs/views-and-decisions.md

Fields, bounds and rules come from the docstrings of `waggle.core.schema` and
`waggle.core.protocols` and from the codes of `waggle.core.admit`. A field without a docstring has
its meaning here. A test compares the page with what this file writes.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from waggle.api.options import docstrings
from waggle.core import schema
from waggle.core.admit import CODES
from waggle.core.protocols import Decode, Request, Usage
from waggle.core.schema import (
    ClaimRow,
    Commitment,
    Contract,
    Decision,
    Evidence,
    Port,
    Private,
    Proposal,
    Trace,
    View,
)

HEAD = """# Views and decisions

This is all that a law reads and writes. `make docs` makes this page from the code. [One local
update](concepts.md) explains the terms, [Write a law](how-to/law.md) builds a decision by hand.
"""
RULES = """## When a decision is legal

A decision that breaks a rule below is refused with the code of that rule. The law is asked once
more and gets the codes as `feedback`. If its second answer is not legal, either, the runtime
deletes what is illegal, or the private proposal takes the place of the decision. `waggle show
RECORD --round 0 --agent 0` prints the codes of one update.

* An **action** is one of the contract's actions. Where the contract lists `VERB:@channel` or
  `VERB:@claim`, the action is `VERB:` and a handle of `channels`, or a claim of `claims`.
* A **fresh deposit** stays within one row of `evidence`: the same claim and direction, and no bin
  above that of the row. Its `ttl` is up to 8.
* A **relay** is a deposit that stays in the same way within one of the `traces`, and its `ttl` is
  at least one below that of the trace.
* A deposit with positive conflict is a **challenge**. It clears the held commitment if the
  evidence contradicts that claim, too.
* A **commitment** is to a claim that is `ready`, with any confidence. If `coverage` is a number,
  it may also be to another claim of the evidence or the traces, with a confidence up to the
  coverage. While another claim is held, the same decision must hold the challenge that clears it.
* A **wait** (`WAIT`, or the intent `WAIT`) deposits nothing, commits to nothing and answers
  nothing.

The rules `text`, `json` and `shape` are about text. A `Decision` object only needs fields of the
right type, or `shape.type` refuses it: `deposits` is a tuple, also of one `Trace`, and `commit` is
a `Commitment`.
"""
SECTIONS = {
    "What a law gets and returns": (Request, Decode, Usage),
    "The view": (View, Contract, Private, Port, ClaimRow, Evidence, Proposal, Trace, Commitment),
    "The decision": (Decision,),
}
"""Headings, each with the structs under it."""
_BINS = "0 to 4: how "
MEANINGS = {
    "Request.view": "The view to decide on.",
    "Decode.output": "A text that is parsed as JSON, or a Decision.",
    "Decode.usage": "What the answer cost; nothing by default.",
    "Usage.calls": "Calls of a model or endpoint.",
    "Usage.input_tokens": "Tokens read.",
    "Usage.output_tokens": "Tokens written.",
    "Usage.model_steps": "Forward passes.",
    "View.contract": "The task, the same in all views of an episode.",
    "View.private": "What the node observes and can vouch for.",
    "View.proposal": "What the node would do on its own.",
    "View.traces": "What neighbours have written to the node and has not expired.",
    "View.commitment": "The claim that the node holds; None if it holds none.",
    "View.budget": "The time that is left, 0 to 4; 0 in the last update.",
    "Contract.task": "The name of the task.",
    "Contract.goal": "The task in words.",
    "Private.evidence": "The rows that fresh deposits may draw on.",
    "Private.channels": "One row for every neighbour.",
    "Private.claims": "The claim table; empty if the world has no facts about claims.",
    "Port.channel": "The handle of a neighbour, `h…`.",
    "Port.lot": "A private random number, 0 to 15, for breaking ties.",
    "Port.facts": "The world's facts about this neighbour: numbers and short texts by name.",
    "ClaimRow.claim": "The claim, `z…`.",
    "ClaimRow.facts": "The world's facts about this claim: numbers and short texts by name.",
    "Evidence.claim": "The claim that the row is about.",
    "Evidence.novelty": f"{_BINS}new the statement is.",
    "Evidence.support": f"{_BINS}strongly the node's own evidence speaks for the claim.",
    "Evidence.conflict": f"{_BINS}strongly it contradicts the claim.",
    "Evidence.direction": "Where the claim is: a compass point or HERE; None if it has no place.",
    "Proposal.action": "A legal action.",
    "Proposal.response": "The answer so far; a decision carries it only if its action answers.",
    "Proposal.claim": "The claim that the proposal rests on, if any.",
    "Trace.channel": "The neighbour it came from; in a deposit, the one it goes to or `*`, all.",
    "Trace.claim": "The claim that the trace is about.",
    "Trace.novelty": f"{_BINS}new the statement is; one less every round.",
    "Trace.support": f"{_BINS}strongly it speaks for the claim; one less every second round.",
    "Trace.conflict": f"{_BINS}strongly it speaks against the claim.",
    "Trace.ttl": "Rounds it still lives, 1 to 8.",
    "Trace.direction": "Where the claim is: a compass point or HERE; None if it has no place.",
    "Commitment.claim": "The claim.",
    "Commitment.confidence_bin": "0 to 4: how sure the node is.",
    "Decision.task_action": "What the node does, spelled as in the contract.",
    "Decision.response": "The answer in words; only with the contract's answering action.",
    "Decision.deposits": "Traces for neighbours, at most the contract's number.",
    "Decision.commit": "The claim to hold from now on; None keeps what is held.",
    "Decision.execution_intent": "PRIVATE (or None) acts as stated, FIELD takes a step towards the "
    "held claim, WAIT does nothing.",
}
"""The meaning of the fields that have no docstring."""


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for title, structs in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts += [described(struct) for struct in structs]
    parts += ["## Bounds\n", table(("name", "value", "meaning"), bounds())]
    parts += [RULES, table(("code", "rule"), CODES.items())]
    return "\n".join(parts)


def described(struct: type) -> str:
    """Return a struct as Markdown: what it is, and a table of its fields."""
    about = (inspect.getdoc(struct) or "").partition("\n\n")[0]
    rows = table(("field", "type", "meaning"), fields(struct))
    return f"### {struct.__name__}\n\n{_line(about)}\n\n{rows}"


def fields(struct: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of every field."""
    told = docstrings(struct)
    for name, kind in inspect.get_annotations(struct).items():
        key = f"{struct.__name__}.{name}"
        if (name in told) == (key in MEANINGS):
            raise SystemExit(f"{key} needs one meaning: a docstring, or a line in MEANINGS")
        meaning = _line(told.get(name) or MEANINGS[key])
        yield name, kind.replace(" | ", " or "), meaning


def bounds() -> Iterator[tuple[str, str, str]]:
    """Yield name, value and docstring of every bound of the schema."""
    body = ast.parse(inspect.getsource(schema)).body
    for target, text in pairwise(body):
        if isinstance(target, ast.Assign) and isinstance(text, ast.Expr):
            name = ast.unparse(target.targets[0])
            assert isinstance(text.value, ast.Constant)
            yield name, str(getattr(schema, name)), _line(str(text.value.value))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a Markdown table; all columns but the last are code."""
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for *code, last in rows:
        lines.append("| " + " | ".join([*(f"`{each}`" for each in code), last]) + " |")
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
