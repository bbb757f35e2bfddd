"""Models read without transformers: configuration, weights and tokenizer of a folder, no classes.

Importing transformers takes longer than many evaluations do, and every process pays it. The lean
decoder needs weights by name and the tokenizer its file, so plain Llama-shaped folders are opened
here, with the factors of an adapter folded in. Whatever is not plain (another kind of adapter,
scaled positions, another tokenizer class) is left to transformers. Invariant: the same weights, the
same tokens and the same chat text either way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from waggle.core.errors import ConfigError
from waggle.engine.model.decoder import supports
from waggle.models import adapters

MAX_JSON = 64 << 20
"""Bytes of a JSON file that is looked at."""
TOKENIZERS = frozenset({"TokenizersBackend", "PreTrainedTokenizerFast"})
"""Tokenizer classes that add nothing to what `tokenizer.json` says."""
_NAMED = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
_UNKNOWN = ("strftime_now", "generation %}")
"""What only transformers offers to a chat template."""
_NEEDED = (
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "vocab_size", "rms_norm_eps", "max_position_embeddings",
)  # fmt: skip


def open_bare(
    folder: Path, device: str, dtype: torch.dtype, adapter: Path | None = None
) -> tuple[Any, Any] | None:
    """Return the model and tokenizer of a folder, or None where transformers has to read it.

    Raises:
        ConfigError: when the adapter's folder holds none, or one for another backbone.
    """
    found = {} if adapter is None else adapters.factors(adapter)
    if found is None:
        return None
    try:
        config = _config(_json(folder / "config.json"))
        tokenizer = BareTokenizer(folder)
        closing = _closing(folder, config)
        if config is None:
            return None
        weights = _weights(folder, device, dtype)
        adapters.fitting(found, {name: tuple(weight.shape) for name, weight in weights.items()})
        weights |= {name: pair.onto(weights[name]) for name, pair in found.items()}
        return _model(weights, config, closing, dtype), tokenizer
    except ConfigError:
        raise
    except Exception:  # who reads it properly also says properly what is wrong with it
        return None


def _json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MAX_JSON:
        raise ValueError(f"{path} is too long")
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise TypeError(f"{path} holds no object")
    return found


def _config(raw: dict[str, Any]) -> SimpleNamespace | None:
    """Return a configuration whose every field is understood, else nothing."""
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
    config = SimpleNamespace(**{"head_dim": None, "tie_word_embeddings": False, **raw})
    config.rope_theta = rope["rope_theta"]
    return config if plain and supports(config) else None


def _closing(folder: Path, config: SimpleNamespace | None) -> Any:
    """Return the end tokens of `generate`, which a file of its own may name."""
    own = folder / "generation_config.json"
    return (
        _json(own).get("eos_token_id") if own.is_file() else getattr(config, "eos_token_id", None)
    )


def _model(
    weights: dict[str, Tensor], config: SimpleNamespace, closing: Any, dtype: torch.dtype
) -> SimpleNamespace:
    _require_shapes(weights, config)
    embedding = weights["model.embed_tokens.weight"]
    head = embedding if config.tie_word_embeddings else weights["lm_head.weight"]
    layers = [_layer(weights, f"model.layers.{i}.") for i in range(config.num_hidden_layers)]
    return SimpleNamespace(
        config=config,
        generation_config=SimpleNamespace(eos_token_id=closing),
        device=embedding.device,
        dtype=dtype,
        model=SimpleNamespace(
            embed_tokens=SimpleNamespace(weight=embedding),
            layers=layers,
            norm=SimpleNamespace(weight=weights["model.norm.weight"]),
            rotary_emb=_Rotary(config, embedding.device),
        ),
        lm_head=SimpleNamespace(weight=head),
    )


def _require_shapes(weights: dict[str, Tensor], config: SimpleNamespace) -> None:
    """Refuse weights that are not those of the configuration, as transformers would."""
    wide, inner = config.hidden_size, config.intermediate_size
    width = config.head_dim or wide // config.num_attention_heads
    heads, shared = config.num_attention_heads * width, config.num_key_value_heads * width
    wanted = {
        "self_attn.q_proj": (heads, wide), "self_attn.k_proj": (shared, wide),
        "self_attn.v_proj": (shared, wide), "self_attn.o_proj": (wide, heads),
        "mlp.gate_proj": (inner, wide), "mlp.up_proj": (inner, wide),
        "mlp.down_proj": (wide, inner),
    }  # fmt: skip
    places = {"model.embed_tokens": (config.vocab_size, wide)} | {
        f"model.layers.{layer}.{name}": shape
        for layer in range(config.num_hidden_layers)
        for name, shape in wanted.items()
    }
    if any(weights[f"{name}.weight"].shape != shape for name, shape in places.items()):
        raise ValueError("weights of another shape")


def _weights(folder: Path, device: str, dtype: torch.dtype) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    names = ["model.safetensors"]
    if not whole.is_file():
        names = sorted(set(_json(index)["weight_map"].values()))
    if any(Path(name).name != name for name in names):
        raise ValueError("weights outside the folder")
    found: dict[str, Tensor] = {}
    for name in names:
        found |= {k: v.to(dtype).to(device) for k, v in load_file(folder / name).items()}
    return found


def _layer(weights: dict[str, Tensor], prefix: str) -> SimpleNamespace:
    """Return one block's weights under the attribute names that the decoder reads."""
    block = SimpleNamespace()
    for name, value in weights.items():
        if name.startswith(prefix):
            *path, last = name.removeprefix(prefix).split(".")
            place = block
            for part in path:
                place.__dict__.setdefault(part, SimpleNamespace(bias=None))
                place = getattr(place, part)
            setattr(place, last, value)
    return block


class _Rotary:
    """The rotary tables of unscaled positions, computed as transformers does."""

    def __init__(self, config: SimpleNamespace, device: torch.device) -> None:
        width = config.head_dim or config.hidden_size // config.num_attention_heads
        steps = torch.arange(0, width, 2, dtype=torch.int64).to(dtype=torch.float)
        self._speeds = (1.0 / (config.rope_theta ** (steps / width))).to(device)

    def __call__(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines, [1, L, D] each, in the dtype of `x`."""
        speeds = self._speeds[None, :, None].float().expand(positions.shape[0], -1, 1)
        angles = (speeds @ positions[:, None, :].float()).transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)


class BareTokenizer:
    """What the engine and the dialogue ask of a tokenizer, from its files alone."""

    clean_up_tokenization_spaces = False

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        said = _json(folder / "tokenizer_config.json")
        if said.get("tokenizer_class") not in TOKENIZERS or said.get(
            "clean_up_tokenization_spaces"
        ):
            raise ValueError("this tokenizer is more than its file")
        self.backend_tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        named = {name: _content(said[name]) for name in _NAMED if said.get(name)}
        extra = said.get("extra_special_tokens") or said.get("additional_special_tokens") or []
        if not isinstance(extra, list):
            raise TypeError("special tokens under names of their own")
        self.bos_token = named.get("bos_token")
        self.eos_token_id = self._id(named.get("eos_token"))
        special = [*named.values(), *map(_content, extra)]
        ids = [self._id(text) for text in dict.fromkeys(special)]
        self.all_special_ids = [token for token in ids if token is not None]
        self._marks = named
        template = folder / "chat_template.jinja"
        self.chat_template: str | None = (
            template.read_text(encoding="utf-8")
            if template.is_file()
            else said.get("chat_template")
        )
        if any(word in (self.chat_template or "") for word in _UNKNOWN):
            raise ValueError("this chat template asks for more than is offered here")
        self._template = _compiled(self.chat_template) if self.chat_template else None

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
        found = self.backend_tokenizer.encode(text, add_special_tokens=add_special_tokens)
        ids: list[int] = found.ids
        return ids

    def decode(
        self,
        tokens: Sequence[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool = False,
    ) -> str:
        """Return what tokens spell."""
        found: str = self.backend_tokenizer.decode(
            list(tokens), skip_special_tokens=skip_special_tokens
        )
        return found

    def convert_ids_to_tokens(self, token: int) -> str | None:
        """Return a token as the vocabulary writes it."""
        found: str | None = self.backend_tokenizer.id_to_token(token)
        return found

    def apply_chat_template(
        self,
        turns: Sequence[dict[str, str]],
        tokenize: bool = False,
        add_generation_prompt: bool = False,
    ) -> str:
        """Write a chat as the template of the folder does."""
        assert self._template is not None, "asked only where there is a template"
        text: str = self._template.render(
            messages=turns, tools=None, documents=None,
            add_generation_prompt=add_generation_prompt, **self._marks,
        )  # fmt: skip
        return text


def _content(token: Any) -> str:
    return str(token["content"]) if isinstance(token, dict) else str(token)


def _compiled(template: str) -> Any:
    """Compile a chat template in a sandbox, with the few helpers templates use."""
    from jinja2.exceptions import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    space = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    space.filters["tojson"] = lambda value, **options: json.dumps(
        value, ensure_ascii=False, indent=options.get("indent")
    )
    space.globals["raise_exception"] = refuse
    return space.from_string(template)
