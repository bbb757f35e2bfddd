"""Models with known architectures and random weights, for measuring speed without downloads."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError
from waggle.models.load import load_tokenizer
from waggle.models.nano import nano_tokenizer

SHAPES: dict[str, tuple[str, dict[str, int]]] = {
    "smollm2-135m-shape": ("Llama", {
        "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
    }),
    "qwen3-4b-shape": ("Qwen3", {
        "vocab_size": 151_936, "hidden_size": 2560, "intermediate_size": 9728,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128,
    }),
    "llama-3.1-8b-shape": ("Llama", {
        "vocab_size": 128_256, "hidden_size": 4096, "intermediate_size": 14_336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    }),
    "gemma-3-270m-shape": ("Gemma3", {
        "vocab_size": 262_144, "hidden_size": 640, "intermediate_size": 2048,
        "num_hidden_layers": 18, "num_attention_heads": 4, "num_key_value_heads": 1,
        "head_dim": 256, "sliding_window": 512,
    }),
}  # fmt: skip


def shaped(name: str, device: str, dtype: Any, tokenizer: Any, seed: int = 0) -> Any:
    """Return a random model of a known shape, with the special tokens of a tokenizer."""
    family, sizes = SHAPES[name]
    torch: Any = import_module("torch")
    library: Any = import_module("transformers")
    text = f"{family}TextConfig"  # for families that also take images
    config = getattr(library, text if hasattr(library, text) else f"{family}Config")(
        **sizes,
        tie_word_embeddings=True,
        max_position_embeddings=8192,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.device("meta"):
        model = getattr(library, f"{family}ForCausalLM")(config)
    model = model.to(dtype).to_empty(device=device)
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for key, weight in sorted(model.named_parameters()):
            if "norm" in key:
                weight.fill_(1.0)
            else:
                weight.normal_(0.0, 0.05, generator=generator)
    model.tie_weights()
    rotary = type(model.model.rotary_emb)(config).to(device)
    model.model.rotary_emb = rotary
    return model.eval()


def save_shape(name: str, folder: Path) -> Path:
    """Write a random model of a known shape as a folder that training can start from.

    Its tokenizer is that of the pretrained default if available, else that of `nano`, so that token
    counts stay close to those of the real model.
    """
    torch: Any = import_module("torch")
    try:
        tokenizer = load_tokenizer("smollm2-135m-instruct")
    except ConfigError:
        tokenizer = nano_tokenizer()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shaped(name, device, torch.bfloat16, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
