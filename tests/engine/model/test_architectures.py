"""The lean decoder reproduces each family it claims; others, and kept adapters, fall back."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from waggle.engine.backends.lean import LeanBackend
from waggle.engine.backends.transformers import PlainBackend
from waggle.engine.constraint.grammar import Grammar
from waggle.engine.engine import Engine
from waggle.engine.request import Prompt
from waggle.models.load import load
from waggle.models.nano import byte_tokenizer

SMALL = {
    "vocab_size": 259,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
LLAMA3_ROPE = {
    "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 128,
}  # fmt: skip
CASES = {
    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig(**SMALL), True),
    "llama3-rope": (
        transformers.LlamaForCausalLM,
        transformers.LlamaConfig(**SMALL, rope_parameters=LLAMA3_ROPE),
        True,
    ),
    "qwen2": (transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**SMALL), True),
    "qwen3": (transformers.Qwen3ForCausalLM, transformers.Qwen3Config(**SMALL, head_dim=16), True),
    "gemma3": (
        transformers.Gemma3ForCausalLM,
        transformers.Gemma3TextConfig(**SMALL, head_dim=16, sliding_window=24),
        False,
    ),
    "gpt2": (
        transformers.GPT2LMHeadModel,
        transformers.GPT2Config(
            vocab_size=259, n_embd=48, n_layer=2, n_head=4, n_positions=512, eos_token_id=2
        ),
        False,
    ),
}


def randomise(model: Any) -> Any:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.15)
    return model.eval()


@pytest.mark.parametrize("name", CASES)
def test_tokens_are_those_of_generate(name: str) -> None:
    kind, config, lean = CASES[name]
    model, tokenizer = randomise(kind(config)), byte_tokenizer()
    engine = Engine(model, tokenizer, max_rows=4)
    assert isinstance(engine.backend, LeanBackend if lean else PlainBackend)
    prefix = tuple(tokenizer.encode("the shared part of every prompt "))
    tails = [tokenizer.encode("node " + "v" * i) for i in range(1, 7)]
    done = engine.generate([Prompt(t, prefix, max_new_tokens=16, ignore_end=True) for t in tails])
    for tail, completion in zip(tails, done, strict=True):
        whole = torch.tensor([[*prefix, *tail]])
        found = model.generate(
            whole,
            attention_mask=torch.ones_like(whole),
            max_new_tokens=16,
            min_new_tokens=16,
            do_sample=False,
        )
        assert list(completion.tokens) == found[0, whole.shape[1] :].tolist()


def test_constrained_decoding_works_on_the_fallback() -> None:
    kind, config, _ = CASES["gpt2"]
    tokenizer = byte_tokenizer()
    engine = Engine(randomise(kind(config)), tokenizer, max_rows=2)
    grammar = Grammar.of_strings(['{"a":1}', '{"a":22}', '{"b":3}'])
    prompts = [
        Prompt(tokenizer.encode(text), grammar=engine.constraint(grammar))
        for text in ("x", "yy", "z")
    ]
    assert all(grammar.accepts(done.text) for done in engine.generate(prompts))


def test_an_adapter_merged_or_kept_gives_the_same_answers(tiny: Any, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    from waggle.models.nano import tiny_random

    config = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(tiny_random()[0], config)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    adapted.save_pretrained(tmp_path)
    answers = []
    for merge in (True, False):
        model, tokenizer = load("tiny-random", "cpu", "float32", str(tmp_path), merge)
        engine = Engine(model, tokenizer, max_rows=2)
        assert isinstance(engine.backend, LeanBackend if merge else PlainBackend)
        prompts = [Prompt(tokenizer.encode(f"view {i}"), max_new_tokens=12) for i in range(4)]
        answers.append([done.tokens for done in engine.generate(prompts)])
    assert answers[0] == answers[1]
    plain = Engine(*tiny, max_rows=2)
    base = plain.generate(
        [Prompt(tiny[1].encode(f"view {i}"), max_new_tokens=12) for i in range(4)]
    )
    assert [done.tokens for done in base] != answers[0], "the adapter must matter"


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # of a CPU that computes no bfloat16
def test_bfloat16_on_a_cpu_is_as_close_as_transformers(tiny: Any) -> None:
    """Fused products and norms round elsewhere, not worse."""
    import copy

    from waggle.engine.model.kv_cache import Piece, PrefixKV

    model, tokenizer = tiny
    tokens = tokenizer.encode("Views differ in handles and claims, records hardly. " * 2)
    ids = torch.tensor([tokens])
    rough = copy.deepcopy(model).to(torch.bfloat16)
    backend = LeanBackend(rough, 1)
    backend.reserve(0, len(tokens))
    chunk = backend.store.chunk([Piece(0, tokens, 0)], [PrefixKV([], 0)])
    with torch.inference_mode():
        exact = model(ids).logits[0]
        theirs = rough(ids).logits[0].float()
        ours = backend.decoder.head(backend.decoder.forward(chunk, backend.store)).float()
    assert (ours - exact).norm() < 1.2 * (theirs - exact).norm()
