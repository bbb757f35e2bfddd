"""What an answer says is what its tokenizer decodes, the short way too."""

from collections.abc import Sequence
from typing import Any

import pytest

from waggle.engine.constraint.vocabulary import Vocabulary
from waggle.models.nano import nano_tokenizer

ANSWER = '{"task_action":"WAIT , now","response":null}<|im_end|>'


class Wishful:
    """A tokenizer that is told to tidy spaces, and may or may not do it."""

    clean_up_tokenization_spaces = True

    def __init__(self, heeds: bool) -> None:
        self._inner, self._heeds, self.decoded = nano_tokenizer(), heeds, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        self.decoded += 1
        text: str = self._inner.decode(tokens, skip_special_tokens=skip_special_tokens)
        return text.replace(" ,", ",") if self._heeds else text


@pytest.mark.parametrize("heeds", [True, False])
def test_answers_are_spelled_here_where_nobody_tidies_them(heeds: bool) -> None:
    tokenizer = Wishful(heeds)
    vocabulary = Vocabulary(tokenizer)
    tokens = tokenizer.encode(ANSWER, add_special_tokens=False)
    expected = tokenizer.decode(tokens, skip_special_tokens=True)
    before = tokenizer.decoded
    assert vocabulary.text(tokens) == expected
    assert (tokenizer.decoded > before) == heeds, "the tokenizer was asked, or not, without need"
