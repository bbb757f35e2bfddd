"""Models made here: `nano`, a small Llama of our own, and `tiny-random` for tests.

Both are seeded, so that the same call gives the same weights everywhere; `nano` is random until it
is trained. Its tokenizer is a byte-level BPE trained on canonical records, so every byte can be
spelled (byte fallback) and the words of the contract are single tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Any

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NANO_VOCABULARY = 2048


def byte_tokenizer(texts: Iterable[str] = (), vocabulary: int = 256 + len(SPECIAL)) -> Any:
    """Train a byte-level BPE tokenizer; without texts it has bytes and markers only."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    library: Any = import_module("transformers")
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Split(Regex(r"\p{N}"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
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
        tokenizer,
        seed,
        0.15,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
    )
    return model, tokenizer


def nano(records: Iterable[str], seed: int = 0) -> tuple[Any, Any]:
    """Return the untrained nano model (about ten million weights) and its tokenizer."""
    tokenizer = byte_tokenizer(records, NANO_VOCABULARY)
    model = random_llama(
        tokenizer,
        seed,
        0.02,
        hidden_size=320,
        intermediate_size=864,
        num_hidden_layers=8,
        num_attention_heads=10,
        num_key_value_heads=5,
        max_position_embeddings=4096,
    )
    return model, tokenizer


def make(name: str) -> tuple[Any, Any]:
    """Make a named model: `nano` or `tiny-random`."""
    if name == "tiny-random":
        return tiny_random()
    from waggle.engine.specimens import specimens

    return nano(specimens())
