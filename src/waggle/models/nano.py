"""Models built here: `nano`, a small Llama of our own, and `tiny-random` for tests.

Both are seeded, so that the same call gives the same weights everywhere; `nano` is random until it
is trained. Its tokenizer is a byte-level BPE that can encode every byte. A token may span long
parts of the JSON skeleton but never a digit, an opaque name or an action name, so values that a law
compares and copies have the same tokens everywhere. The tokenizer is a file of the package, made by
`waggle corpus tokenizer` from prompts and records of the training tasks.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.resources import files
from typing import Any

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NANO_VOCABULARY = 2048
TOKENIZER = "nano_tokenizer.json"
"""The trained tokenizer of `nano`, beside this module."""
_NAMES = (
    r'h(?=[0-9a-z]{2}")|(?<=[":]h)[0-9a-z]{2}(?=")|(?<="z)[0-9a-z]{3,4}(?=")'
    r'|\A[0-9a-z]{1,4}(?=")'
)
_CHOICES = (
    r'\{"task_action":"|[\[\]]*\},"worker_proposal":\{"action":"|","response":|","deposits":\['
    r'|null,"deposits":\[|\},\{"channel":"h|\{"channel":"|"?\}?\],"commit":'
    r'|null\}\z|null,"execution_intent":"'
)
"""A token ends wherever a record can continue in several ways, so that every choice is one token.
The patterns have no lookbehind: a matcher at a choice sees only the text that follows."""
_WORDS = r'\p{N}|[A-Z_]{2,}|(?<=")[A-Z][A-Za-z_]*|[A-Z][A-Za-z_]*(?=")|(?<=[:,] )[A-Z][A-Za-z_]*'


def byte_tokenizer(texts: Iterable[str] = (), vocabulary: int = 256 + len(SPECIAL)) -> Any:
    """Train a byte-level BPE tokenizer; without texts it has bytes and markers only."""
    return _fast(_trained(texts, vocabulary, (r"\p{N}",), words=True))


def train_nano_tokenizer(texts: Iterable[str]) -> str:
    """Train the tokenizer of `nano` and return it as JSON."""
    from tokenizers import AddedToken

    from waggle.core.prompt import INSTRUCTION, SCHEMA

    # Text that occurs verbatim in every prompt: one token each.
    phrases = (INSTRUCTION, SCHEMA)
    cuts = (f"{_NAMES}|{_CHOICES}", _WORDS)
    tokenizer = _trained(texts, NANO_VOCABULARY - len(phrases), cuts, words=False)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in phrases])
    return str(tokenizer.to_str())


def _trained(texts: Iterable[str], vocabulary: int, cuts: Sequence[str], words: bool) -> Any:
    """Train a byte-level BPE whose tokens end at matches of `cuts` and, with `words`, at words."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(cut), "isolated") for cut in cuts),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=words),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def nano_tokenizer() -> Any:
    """Return the tokenizer of `nano`."""
    from tokenizers import Tokenizer

    data = files("waggle.models").joinpath(TOKENIZER).read_text(encoding="utf-8")
    return _fast(Tokenizer.from_str(data))


def _fast(tokenizer: Any) -> Any:
    """Wrap a tokenizer for transformers, with the chat template and its markers."""
    library: Any = import_module("transformers")
    return library.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL[0],
        eos_token=SPECIAL[2],
        pad_token=SPECIAL[2],
        additional_special_tokens=[SPECIAL[1]],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def random_llama(tokenizer: Any, seed: int, spread: float, **shape: int) -> Any:
    """Build a Llama with seeded normal weights; embeddings are tied."""
    import torch

    library: Any = import_module("transformers")
    config = library.LlamaConfig(
        vocab_size=len(tokenizer),
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **shape,
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if "norm" not in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * spread)
    return model.eval()


def tiny_random(seed: int = 0) -> tuple[Any, Any]:
    """Return a two-layer random model and its byte tokenizer, for tests."""
    tokenizer = byte_tokenizer()
    model = random_llama(
        tokenizer, seed, 0.15, hidden_size=64, intermediate_size=160, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=4096,
    )  # fmt: skip
    return model, tokenizer


def nano(seed: int = 0) -> tuple[Any, Any]:
    """Return the untrained nano model (just under ten million weights) and its tokenizer."""
    tokenizer = nano_tokenizer()
    model = random_llama(
        tokenizer, seed, 0.02, hidden_size=320, intermediate_size=768, num_hidden_layers=8,
        num_attention_heads=5, num_key_value_heads=5, max_position_embeddings=4096,
    )  # fmt: skip
    return model, tokenizer
