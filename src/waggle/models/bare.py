"""Loading of plain folders without transformers: configuration, weights and tokenizer.

Importing transformers takes longer than many evaluations do, in every process. An engine needs only
weights by name and the tokenizer's file, so plain folders are opened here, with the factors of a
LoRA adapter merged in. The engine decides which architectures it runs. Anything that is not plain
(another kind of adapter, scaled positions, another tokenizer class) is left to transformers.
Invariant: both ways give the same weights, tokens and chat text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from waggle.core.errors import ConfigError
from waggle.models import adapters
from waggle.models.trial import compiled

MAX_JSON = 64 << 20
"""Maximum size of a JSON file that is read, in bytes."""
TOKENIZERS = frozenset({"TokenizersBackend", "PreTrainedTokenizerFast"})
"""Tokenizer classes that add nothing to `tokenizer.json`."""
_SPECIAL = (
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
)  # fmt: skip
_TRANSFORMERS_ONLY = ("strftime_now", "generation %}")
"""Parts of chat templates that only transformers offers."""
_NEEDED = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "vocab_size", "rms_norm_eps", "max_position_embeddings",
)  # fmt: skip

_LONGEST = 1 << 20
"""Maximum number of elements of a bias or norm that is read."""


def open_bare(
    folder: Path,
    device: str,
    dtype: torch.dtype,
    runs: Callable[[Any], bool],
    adapter: Path | None = None,
) -> tuple[Any, Any] | None:
    """Return the model and tokenizer of a folder, or None if transformers has to read it.

    The model is a tree of attributes with `config`, `generation_config`, `device` and `dtype`.

    Args:
        folder: where the model is.
        device: where its weights go.
        dtype: dtype that its weights are cast to.
        runs: returns whether the engine runs a model of a configuration from its weights alone.
        adapter: folder of an adapter to merge into the weights.

    Raises:
        ConfigError: when the adapter's folder holds no adapter, or one for another backbone.
    """
    found = {} if adapter is None else adapters.factors(adapter)
    if found is None:
        return None
    try:
        config = _config(_json(folder / "config.json"))
        if not runs(config):
            return None
        tokenizer = BareTokenizer(folder)
        shapes = _shapes(config)
        weights = _weights(folder, device, dtype, shapes)
        adapters.fitting(found, {name: tuple(weight.shape) for name, weight in weights.items()})
        weights |= {name: pair.onto(weights[name]) for name, pair in found.items()}
        if config.tie_word_embeddings:
            weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
        if not shapes.keys() <= weights.keys():
            raise ValueError("weights are missing")
        model = _tree(weights, config.num_hidden_layers)
        model.generation_config = SimpleNamespace(eos_token_id=_end_tokens(folder, config))
    except ConfigError:
        raise
    except Exception:  # transformers then reads it, or raises a proper error
        return None
    model.config, model.dtype = config, dtype
    model.device = model.model.embed_tokens.weight.device
    return model, tokenizer


def _json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_JSON:
        raise ValueError(f"{path} is too long")
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise TypeError(f"{path} holds no object")
    return found


def _config(raw: dict[str, Any]) -> SimpleNamespace:
    """Return a configuration with plain positions.

    Raises:
        ValueError: if a field is missing or has a value that is not supported here.
    """
    rope = raw.get("rope_parameters") or {
        "rope_theta": raw.get("rope_theta"),
        "rope_type": "default",
    }
    plain = (
        all(raw.get(name) is not None for name in _NEEDED)
        and rope.get("rope_type") == "default"
        and isinstance(rope.get("rope_theta"), int | float)
        and not raw.get("rope_scaling")
        and not raw.get("quantization_config")
        and rope.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0)) == 1.0
    )
    if not plain:
        raise ValueError("this configuration is not plain")
    config = SimpleNamespace(**{"head_dim": None, "tie_word_embeddings": False, **raw})
    config.rope_theta = rope["rope_theta"]
    return config


def _end_tokens(folder: Path, config: SimpleNamespace) -> Any:
    """Return the end tokens of `generate`, from `generation_config.json` if it exists."""
    own = folder / "generation_config.json"
    if own.is_file():
        return _json(own).get("eos_token_id")
    return getattr(config, "eos_token_id", None)


def _weights(
    folder: Path, device: str, dtype: torch.dtype, shapes: dict[str, tuple[int, ...]]
) -> dict[str, Tensor]:
    """Read the weights in `shapes` and all short vectors; nothing else is read."""
    from safetensors import safe_open

    names = ["model.safetensors"]
    if not (folder / names[0]).is_file():
        index = _json(folder / "model.safetensors.index.json")
        names = sorted(set(index["weight_map"].values()))
    if any(Path(name).name != name for name in names):
        raise ValueError("weights outside the folder")
    found: dict[str, Tensor] = {}
    for name in names:
        with safe_open(folder / name, "pt") as file:
            for key in file.keys():  # noqa: SIM118 (a reader, not a dictionary)
                shape = tuple(file.get_slice(key).get_shape())
                if key in shapes and shape != shapes[key]:
                    raise ValueError("weights of another shape")
                if key in shapes or (len(shape) == 1 and shape[0] <= _LONGEST):
                    found[key] = file.get_tensor(key).to(dtype).to(device)
    return found


def _shapes(config: SimpleNamespace) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a model's weights by name, for a configuration."""
    hidden, inner = config.hidden_size, config.intermediate_size
    width = config.head_dim or hidden // config.num_attention_heads
    heads, shared = config.num_attention_heads * width, config.num_key_value_heads * width
    block = {
        "self_attn.q_proj": (heads, hidden), "self_attn.k_proj": (shared, hidden),
        "self_attn.v_proj": (shared, hidden), "self_attn.o_proj": (hidden, heads),
        "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner), "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }  # fmt: skip
    table = (config.vocab_size, hidden)
    whole = {"model.embed_tokens": table, "lm_head": table, "model.norm": (hidden,)}
    blocks = {
        f"model.layers.{layer}.{name}": shape
        for layer in range(config.num_hidden_layers)
        for name, shape in block.items()
    }
    return {f"{name}.weight": shape for name, shape in (whole | blocks).items()}


def _tree(weights: dict[str, Tensor], layers: int) -> SimpleNamespace:
    """Return weights as attributes: `model.layers[0].mlp.up_proj.weight` and so on."""
    root = SimpleNamespace()
    for name, value in weights.items():
        *path, last = name.split(".")
        place = root
        for part in path:
            place = place.__dict__.setdefault(part, SimpleNamespace(bias=None))
        setattr(place, last, value)
    blocks = root.model.layers.__dict__
    root.model.layers = [blocks[str(index)] for index in range(layers)]
    return root


class BareTokenizer:
    """The parts of a transformers tokenizer that an engine and a chat use, from its files."""

    clean_up_tokenization_spaces = False

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        raw = _json(folder / "tokenizer_config.json")
        cleans = raw.get("clean_up_tokenization_spaces")
        if raw.get("tokenizer_class") not in TOKENIZERS or cleans:
            raise ValueError("this tokenizer is more than its file")
        self.backend_tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._special = {name: _content(raw[name]) for name in _SPECIAL if raw.get(name)}
        extra = raw.get("extra_special_tokens") or raw.get("additional_special_tokens") or []
        if not isinstance(extra, list):
            raise TypeError("special tokens under names of their own")
        self.bos_token = self._special.get("bos_token")
        self.eos_token_id = self._id(self._special.get("eos_token"))
        special = dict.fromkeys([*self._special.values(), *map(_content, extra)])
        ids = [self._id(text) for text in special]
        self.all_special_ids = [token for token in ids if token is not None]
        template = folder / "chat_template.jinja"
        self.chat_template: str | None = raw.get("chat_template")
        if template.is_file():
            self.chat_template = template.read_text(encoding="utf-8")
        if any(word in (self.chat_template or "") for word in _TRANSFORMERS_ONLY):
            raise ValueError("this chat template asks for more than is offered here")
        self._template = compiled(self.chat_template) if self.chat_template else None

    def _id(self, text: str | None) -> int | None:
        found: int | None = None if text is None else self.backend_tokenizer.token_to_id(text)
        return found

    def __len__(self) -> int:
        return int(self.backend_tokenizer.get_vocab_size(with_added_tokens=True))

    def __call__(self, texts: list[str], add_special_tokens: bool = True) -> dict[str, Any]:
        """Encode several texts."""
        found = self.backend_tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
        return {"input_ids": [encoding.ids for encoding in found]}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Encode one text."""
        ids: list[int] = self([text], add_special_tokens)["input_ids"][0]
        return ids

    def decode(
        self,
        tokens: Sequence[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool = False,
    ) -> str:
        """Return the text of tokens."""
        found: str = self.backend_tokenizer.decode(
            list(tokens), skip_special_tokens=skip_special_tokens
        )
        return found

    def convert_ids_to_tokens(self, token: int) -> str | None:
        """Return a token's entry in the vocabulary."""
        found: str | None = self.backend_tokenizer.id_to_token(token)
        return found

    def apply_chat_template(
        self,
        turns: Sequence[dict[str, str]],
        tokenize: bool = False,
        add_generation_prompt: bool = False,
    ) -> str:
        """Return the text of a chat, rendered by the folder's template."""
        assert self._template is not None, "asked only where there is a template"
        text: str = self._template.render(
            messages=turns, tools=None, documents=None,
            add_generation_prompt=add_generation_prompt, **self._special,
        )  # fmt: skip
        return text


def _content(token: Any) -> str:
    return str(token["content"]) if isinstance(token, dict) else str(token)
