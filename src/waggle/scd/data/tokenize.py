"""Views and decisions as tokens: the chat that a deployed law reads, and the answer it must give.

The prompt is the backbone's chat template up to the assistant's turn. The answer is the canonical
record and the template's end of turn. Invariant: the tokens equal those of tokenising the whole
text at once, and only the answer's tokens carry loss.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from waggle.core.canon import encode_decision
from waggle.core.protocols import Request
from waggle.core.schema import Decision, View
from waggle.laws.dialogue import Dialogue
from waggle.scd.data.arrays import Encoded

FREQUENT = 8
"""With at least this many views of a contract, their shared prompt prefix is tokenised once."""
_SAMPLE = '{"task_action":"WAIT","response":null,"deposits":[],"commit":null}'


class ChatEncoder:
    """An encoder of (view, decision) pairs as tokens of one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._dialogue = Dialogue(tokenizer)
        self._end = end_of_turn(tokenizer)
        backend: Any = tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        self._encode = getattr(backend, "encode_batch_fast", backend.encode_batch)

    def encode(self, views: Sequence[View], decisions: Sequence[Decision | None]) -> list[Encoded]:
        """Encode pairs; a view without a decision gets a prompt and an empty answer."""
        pairs = zip(self.prompts(views), self.answers(decisions), strict=True)
        return [Encoded(prompt, answer) for prompt, answer in pairs]

    def prompts(self, views: Sequence[View]) -> list[list[int]]:
        """Return the prompt of every view; the prefix of a frequent contract is encoded once."""
        counts = Counter(view.contract for view in views)
        frequent = [i for i, view in enumerate(views) if counts[view.contract] >= FREQUENT]
        others = [i for i, view in enumerate(views) if counts[view.contract] < FREQUENT]
        found: list[list[int]] = [[] for _ in views]
        # Group by contract: the dialogue caches a bounded number of contracts.
        frequent.sort(key=lambda i: hash(views[i].contract))
        tokens = self._dialogue.tokens([Request(views[i]) for i in frequent])
        for i, (shared, own) in zip(frequent, tokens, strict=True):
            found[i] = [*shared, *own]
        texts = [self.prompt_text(views[i]) for i in others]
        for i, ids in zip(others, self._ids(texts), strict=True):
            found[i] = ids
        return found

    def answers(self, decisions: Sequence[Decision | None]) -> list[list[int]]:
        """Return the answer of every decision; empty for None."""
        return self._ids(["" if d is None else self.answer_text(d) for d in decisions])

    def prompt_text(self, view: View) -> str:
        """Return the chat of one call of the law, up to its answer."""
        return self._dialogue.text(Request(view))

    def answer_text(self, decision: Decision) -> str:
        """Return the canonical record with the end of the assistant's turn."""
        return encode_decision(decision).decode() + self._end

    def _ids(self, texts: list[str]) -> list[list[int]]:
        return [found.ids for found in self._encode(texts, add_special_tokens=False)]


def end_of_turn(tokenizer: Any) -> str:
    """Return the text after an answer: the template's end of turn, or else the EOS token."""
    end = tokenizer.eos_token or ""
    if not getattr(tokenizer, "chat_template", None):
        return str(end)
    turns = [{"role": "user", "content": "x"}]
    try:
        start = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template(
            [*turns, {"role": "assistant", "content": _SAMPLE}], tokenize=False
        )
    except Exception:  # a template is foreign code: after any failure the EOS token is used
        return str(end)
    rest = whole.removeprefix(start)
    if rest == whole or not rest.startswith(_SAMPLE):
        return str(end)
    return str(rest.removeprefix(_SAMPLE).rstrip() or end)


def tokenizer_digest(tokenizer: Any) -> str:
    """Return a digest of a tokenizer's full definition."""
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()[:16]
