"""A Llama as a GGUF file in a chosen precision, without its vocabulary: rivals get tokens.

Invariant: in float32 the file holds the very weights of the model; llama.cpp turns neighbouring
channels where transformers turns halves, so queries and keys are reordered.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write(model: Any, target: Path, precision: str) -> Path:
    """Write a model to a file, matrices as `precision` (F32, Q8_0, Q4_0, Q4_1); return the file.

    The embedding, which is also the output layer here, has eight bits at least, as
    llama.cpp's own files have more there.
    """
    gguf: Any = import_module("gguf")
    kinds = gguf.GGMLQuantizationType
    writer = gguf.GGUFWriter(str(target), "llama")
    _describe(writer, model.config)
    for name, weight in _weights(model):
        data = weight.detach().float().numpy()
        kind = kinds[precision] if data.ndim == 2 else kinds.F32
        if kind in (kinds.Q4_0, kinds.Q4_1) and name in ("token_embd.weight", "output.weight"):
            kind = kinds.Q8_0
        data = data if kind == kinds.F32 else gguf.quants.quantize(data, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _describe(writer: Any, config: Any) -> None:
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")


def _weights(model: Any) -> Iterator[tuple[str, Any]]:
    config, body = model.config, model.model
    yield "token_embd.weight", body.embed_tokens.weight
    yield "output_norm.weight", body.norm.weight
    if not config.tie_word_embeddings:
        yield "output.weight", model.lm_head.weight
    heads = {
        "self_attn.q_proj": config.num_attention_heads,
        "self_attn.k_proj": config.num_key_value_heads,
    }
    for index, block in enumerate(body.layers):
        for ours, theirs in NAMES.items():
            weight = block.get_submodule(ours).weight
            if ours in heads:
                weight = _interleaved(weight, heads[ours])
            yield f"blk.{index}.{theirs}.weight", weight


def _interleaved(weight: Any, heads: int) -> Any:
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.transpose(1, 2).reshape(rows, columns).contiguous()
