"""Tokenized chat prompts of requests, split into a prefix that an episode shares and the rest.

The backbone's own chat template is used; a base model without one gets a plain transcript that
begins with its BOS token. Invariant: prefix plus rest equals the tokenizer's encoding of the whole
text, checked once per contract; if the split would change the tokens, nothing is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from waggle.core import prompt
from waggle.core.protocols import Request
from waggle.core.schema import Contract
from waggle.laws.piecewise import Piecewise

MAX_CONTRACTS = 64
"""Contracts whose prompts are cached."""


class _Frame:
    """The text that a chat template writes before and after the node's part of a prompt.

    It is recorded from a contract's first view and checked on a second; then it replaces the
    template.
    """

    __slots__ = ("after", "before", "proven")

    def __init__(self, before: str, after: str) -> None:
        self.before = before
        self.after = after
        self.proven = False


class Dialogue:
    """The prompt builder of one tokenizer: it turns requests into shared and own tokens."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        inner: Any = getattr(tokenizer, "backend_tokenizer", None)
        fast = hasattr(inner, "encode_batch_fast") and not (inner.padding or inner.truncation)
        self._piecewise = Piecewise(inner) if fast else None
        self._shared: dict[Contract, tuple[tuple[int, ...], str]] = {}
        self._frames: dict[Contract, _Frame | None] = {}

    def tokens(self, requests: Sequence[Request]) -> list[tuple[tuple[int, ...], list[int]]]:
        """Return (shared, own) tokens of every request."""
        if not requests:
            return []
        heads: list[tuple[int, ...]] = []
        texts: list[str] = []
        for request in requests:
            whole, cut = self._text(request)
            head, carried = self._head(request.view.contract, whole, cut)
            heads.append(head)
            texts.append(carried + whole[cut:] if head else whole)
        return list(zip(heads, self._encode_all(texts), strict=True))

    def _encode_all(self, texts: list[str]) -> list[list[int]]:
        """Encode texts, by the `tokenizers` library directly if that gives the same tokens."""
        if self._piecewise is None:
            found: list[list[int]] = self._tokenizer(texts, add_special_tokens=False)["input_ids"]
            return found
        return self._piecewise.encode(texts)

    def text(self, request: Request) -> str:
        """Return the whole prompt of a request; training uses exactly this text."""
        return self._text(request)[0]

    def _text(self, request: Request) -> tuple[str, int]:
        """Return the whole prompt and the index at which the node's own part begins."""
        if request.feedback:
            return self._rendered(request)
        contract = request.view.contract
        own = prompt.tail(request.view)
        frame = self._frames.get(contract)
        if frame is not None and frame.proven:
            return frame.before + own + frame.after, len(frame.before)
        whole, cut = self._rendered(request)
        if contract not in self._frames:
            self._frame(contract, whole, cut, own)
        elif frame is not None:
            frame.proven = frame.before + own + frame.after == whole
            if not frame.proven:
                self._frames[contract] = None
        return whole, cut

    def _frame(self, contract: Contract, whole: str, cut: int, own: str) -> None:
        """Record the text around the node's part of a prompt, if the prompt has it unchanged."""
        if len(self._frames) >= MAX_CONTRACTS:
            self._frames.clear()
        intact = cut > 0 and whole.startswith(own, cut)
        self._frames[contract] = _Frame(whole[:cut], whole[cut + len(own) :]) if intact else None

    def _rendered(self, request: Request) -> tuple[str, int]:
        """Render a request through the chat template."""
        view = request.view
        turns = prompt.messages(view, request.feedback, request.previous)
        whole = self._render(turns)
        shared = prompt.prefix(view.contract)
        at = whole.find(shared)
        return whole, (at + len(shared) if at >= 0 else 0)

    def _render(self, turns: list[dict[str, str]]) -> str:
        if not getattr(self._tokenizer, "chat_template", None):
            return _transcript(turns, self._tokenizer.bos_token)
        try:
            return self._template(turns)
        except Exception:  # templates without a system turn raise various errors
            first = {"role": "user", "content": f"{turns[0]['content']}\n{turns[1]['content']}"}
            return self._template([first, *turns[2:]])

    def _template(self, turns: list[dict[str, str]]) -> str:
        text: str = self._tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True
        )
        return text

    def _head(self, contract: Contract, whole: str, cut: int) -> tuple[tuple[int, ...], str]:
        """Return the shared tokens of a contract and the text between them and the cut."""
        known = self._shared.get(contract)
        if known is None:
            if len(self._shared) >= MAX_CONTRACTS:
                self._shared.clear()
            known = self._shared[contract] = self._split(whole, cut)
        return known

    def _split(self, whole: str, cut: int) -> tuple[tuple[int, ...], str]:
        """Return the longest token prefix that no continuation changes, and the text to the cut."""
        everything = self._encode(whole)
        shared = self._encode(whole[:cut])
        length = 0
        while length < len(shared) and shared[length] == everything[length]:
            length += 1
        # Share one token fewer: the next view may merge across the cut where this one did not.
        head = shared[: max(0, length - 1)]
        spelled = self._tokenizer.decode(
            head, skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        carried = whole[len(spelled) : cut]
        intact = whole.startswith(spelled)
        if intact and head + self._encode(carried + whole[cut:]) == everything:
            return tuple(head), carried
        return (), ""

    def _encode(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return found


def _transcript(turns: list[dict[str, str]], start: str | None) -> str:
    """Format a chat for a model without a chat template."""
    return (start or "") + "\n\n".join(turn["content"] for turn in turns) + "\n\nDecision: "
