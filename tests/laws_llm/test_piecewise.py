"""Tokens put together from pieces are the tokenizer's own."""

import json
from random import Random
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from benchmarks import workload
from waggle.laws import piecewise as module
from waggle.laws.piecewise import SAMPLE, Piecewise
from waggle.models.nano import SPECIAL, byte_tokenizer, nano_tokenizer

PARTS = (
    '{"task_action":"', '","response":', 'null,"deposits":[', '{"channel":"h', "3x", "z9ab", '"',
    '},{"channel":"h', '}],"commit":', "null}", 'null,"execution_intent":"', "FIELD", "MOVE_UP",
    "12", ": Wait", " it's", "  ", "\n\t", "\x00\x7f", "h", "z", "[]},",
    '"worker_proposal":{"action":"', '"lot":', "7", ",", "}", "h1x", *SPECIAL,
)  # fmt: skip


def texts(count: int, seed: int, extra: tuple[str, ...] = ()) -> list[str]:
    random = Random(seed)
    return [
        "".join(random.choices((*PARTS, *extra), k=random.randrange(0, 40))) for _ in range(count)
    ]


def whole(inner: Any, given: list[str]) -> list[list[int]]:
    return [inner.encode(text, add_special_tokens=False).ids for text in given]


def tokenizers() -> dict[str, Any]:
    trained = byte_tokenizer(workload.texts(60), 1024).backend_tokenizer
    llama = Tokenizer.from_str(trained.to_str())
    cut = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+"
    llama.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(cut), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    found = {"nano": nano_tokenizer().backend_tokenizer, "trained": trained, "llama": llama}
    return {**found, "fallback": falling_back(trained)}


def falling_back(trained: Any) -> Any:
    """As some versions of transformers read it: with a way to spell unknown letters."""
    said = json.loads(trained.to_str())
    said["normalizer"] = {"type": "Sequence", "normalizers": []}
    said["model"] |= {"unk_token": SPECIAL[0], "fuse_unk": True, "byte_fallback": True}
    return Tokenizer.from_str(json.dumps(said))


@pytest.mark.parametrize("name", ["nano", "trained", "llama", "fallback"])
def test_tokens_are_the_tokenizers_own(name: str) -> None:
    inner = tokenizers()[name]
    piecewise = Piecewise(inner)
    for seed in range(3):
        given = texts(10 * SAMPLE, seed, extra=("é", "日本", "\u2028"))
        assert piecewise.encode(given) == whole(inner, given)
    assert piecewise.active, "texts were not encoded piecewise, or a sample differed"


def test_a_tokenizer_that_does_more_is_asked_itself() -> None:
    for change in ("normalizer", "several", "prefix", "lines"):
        inner = tokenizers()["trained"]
        if change == "normalizer":
            inner.normalizer = normalizers.NFC()
        elif change == "several":
            inner.normalizer = normalizers.Sequence([normalizers.Lowercase()])
        elif change == "prefix":
            inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        else:
            inner.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Split(Regex("^a"), "isolated"), pre_tokenizers.ByteLevel(False)]
            )
        piecewise = Piecewise(inner)
        given = texts(20, 1)
        assert not piecewise.active
        assert piecewise.encode(given) == whole(inner, given)


def test_a_sample_that_differs_ends_piecewise_encoding() -> None:
    inner = tokenizers()["trained"]
    piecewise = Piecewise(inner)
    piecewise._encode = lambda text: [0]
    given = texts(20, 2)
    assert piecewise.encode(given) == whole(inner, given)
    assert not piecewise.active


@pytest.mark.parametrize("name", ["nano", "trained", "llama", "fallback"])
def test_remembered_rows_and_fields_change_no_token(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tokenizers()[name]
    given = [text for text in [*workload.texts(40), *texts(200, 3)] if text.isascii()]
    encode = module._encoder(inner)
    monkeypatch.setattr(module, "MARKS", ())
    without = module._encoder(inner)
    assert encode.__qualname__ != without.__qualname__, "rows were not remembered"
    first = [[*encode(text)] for text in given]
    assert first == [[*without(text)] for text in given] == whole(inner, given)
    assert [[*encode(text)] for text in given] == first


def test_few_pieces_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PIECES", 3)
    made: list[str] = []
    pieces = module._Pieces(lambda piece: made.append(piece) or [len(piece)])  # type: ignore[func-returns-value]
    encode = module._cut("}", pieces)
    for number in range(50):
        assert [*encode(f"a{number}}}b")] == [len(f"a{number}"), 2]
        assert len(pieces) <= 5
    assert made.count("}b") < 50, "nothing was remembered"


def test_texts_are_cut_only_where_the_tokenizer_cuts() -> None:
    patterns = [module._compile(module._GPT2)]
    assert module._ends_numbers("}", patterns, ["<|end|>", "a}"])
    assert not module._ends_numbers("}", patterns, ["<7}>"]), "an added token would be cut"
    assert not module._ends_numbers("}", [], []), "merges could reach over the cut"
