"""Views and decisions in tokens: the chat a deployed law sees, and the record it must answer.

The prompt is the chat template with the generation mark; the answer is the canonical record and
the template's own end of turn. Invariant: the answer's tokens, and nothing else, carry loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from waggle.core.canon import encode_decision
from waggle.core.protocols import Request
from waggle.core.schema import Decision, View
from waggle.laws.dialogue import Dialogue
from waggle.scd.forward.forward import Encoded

_SAMPLE = '{"task_action":"WAIT","response":null,"deposits":[],"commit":null}'


class Coder:
    """Turns (view, decision) pairs into tokens for one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._dialogue = Dialogue(tokenizer)
        self._end = end_of_turn(tokenizer)

    def prompt_text(self, view: View) -> str:
        """Return the chat of one call of the law, ready for its answer."""
        return self._dialogue.text(Request(view))

    def answer_text(self, decision: Decision) -> str:
        """Return the canonical record with the end of the assistant's turn."""
        return encode_decision(decision).decode() + self._end

    def encode(self, views: Sequence[View], decisions: Sequence[Decision | None]) -> list[Encoded]:
        """Encode pairs; without a decision only the prompt."""
        prompts = self._ids([self.prompt_text(view) for view in views])
        answers = self._ids(["" if d is None else self.answer_text(d) for d in decisions])
        return [Encoded(p, a) for p, a in zip(prompts, answers, strict=True)]

    def _ids(self, texts: list[str]) -> list[list[int]]:
        filled = [text for text in texts if text]
        if not filled:
            return [[] for _ in texts]
        found = iter(self.tokenizer(filled, add_special_tokens=False)["input_ids"])
        return [next(found) if text else [] for text in texts]


def end_of_turn(tokenizer: Any) -> str:
    """Return what follows an assistant record: the template's end of turn, else the end token."""
    end = tokenizer.eos_token or ""
    if not getattr(tokenizer, "chat_template", None):
        return str(end)
    turns = [{"role": "user", "content": "x"}]
    try:
        start = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template(
            [*turns, {"role": "assistant", "content": _SAMPLE}], tokenize=False
        )
    except Exception:  # a template is somebody else's program; any failure means "no answer"
        return str(end)
    rest = whole.removeprefix(start)
    if rest == whole or not rest.startswith(_SAMPLE):
        return str(end)
    return str(rest.removeprefix(_SAMPLE).rstrip() or end)
