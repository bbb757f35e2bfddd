"""The lean decoder reproduces each family it claims; others, and kept adapters, fall back."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers

from waggle.engine.backends.lean import LeanBackend
from waggle.engine.backends.transformers import TransformersBackend
from waggle.engine.constraint.grammar import Grammar, choice
from waggle.engine.engine import Engine
from waggle.engine.model.config import refusal, supports
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
    "mistral": (
        transformers.MistralForCausalLM,
        transformers.MistralConfig(**SMALL, sliding_window=None),
        True,
    ),
    "mistral, window of the whole context": (
        transformers.MistralForCausalLM,
        transformers.MistralConfig(**SMALL, sliding_window=512),
        True,
    ),
    "mistral, short window": (
        transformers.MistralForCausalLM,
        transformers.MistralConfig(**SMALL, sliding_window=24),
        False,
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


STRINGS = ['{"a":1}', '{"a":12}', '{"a":123}', '{"b":[]}', '{"b":[3,4]}', "null", "nullify"]


def made(name: str) -> tuple[Any, Any, Engine]:
    """Return a random model of a family, its tokenizer, and an engine over the backend it gets."""
    kind, config, lean = CASES[name]
    model, tokenizer = randomise(kind(config)), byte_tokenizer()
    engine = Engine(model, tokenizer, max_rows=4)
    assert isinstance(engine.backend, LeanBackend if lean else TransformersBackend)
    return model, tokenizer, engine


def texts(tokenizer: Any) -> tuple[tuple[int, ...], list[list[int]]]:
    """Return a shared prefix and what follows it; together longer than a short window."""
    prefix = tuple(tokenizer.encode("the shared part of every prompt "))
    return prefix, [tokenizer.encode("node " + "v" * i) for i in range(1, 7)]


def generated(model: Any, tokens: list[int], **options: Any) -> list[int]:
    """Return what transformers says greedily."""
    whole = torch.tensor([tokens])
    found = model.generate(whole, attention_mask=torch.ones_like(whole), do_sample=False, **options)
    answer: list[int] = found[0, len(tokens) :].tolist()
    return answer


def randomise(model: Any) -> Any:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, weight in sorted(model.named_parameters()):
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.15)
    return model.eval()


@pytest.mark.parametrize("name", CASES)
def test_tokens_are_those_of_generate(name: str) -> None:
    model, tokenizer, engine = made(name)
    prefix, tails = texts(tokenizer)
    done = engine.generate([Prompt(t, prefix, max_new_tokens=12, ignore_end=True) for t in tails])
    for tail, completion in zip(tails, done, strict=True):
        want = generated(model, [*prefix, *tail], max_new_tokens=12, min_new_tokens=12)
        assert list(completion.tokens) == want


@pytest.mark.parametrize("name", CASES)
def test_constrained_tokens_are_those_of_generate(name: str) -> None:
    """Transformers is told after each token which bytes go on to one of the strings."""
    model, tokenizer, engine = made(name)
    prefix, tails = texts(tokenizer)
    end = tokenizer.eos_token_id
    spelled = [tuple(tokenizer.encode(text)) for text in STRINGS]
    grammar = engine.matcher(Grammar(choice(*STRINGS)))
    done = engine.generate([Prompt(tail, prefix, grammar=grammar) for tail in tails])
    for tail, completion in zip(tails, done, strict=True):
        begun = len(prefix) + len(tail)

        def allowed(_: int, tokens: torch.Tensor, begun: int = begun) -> list[int]:
            said = tuple(tokens[begun:].tolist())
            here = [text for text in spelled if text[: len(said)] == said]
            return sorted({text[len(said)] if len(text) > len(said) else end for text in here})

        want = generated(
            model, [*prefix, *tail], max_new_tokens=16, prefix_allowed_tokens_fn=allowed
        )
        assert [*completion.tokens, end] == want
        assert completion.text in STRINGS


def test_what_the_decoder_refuses_is_said() -> None:
    assert {name: refusal(config) == "" for name, (_, config, _) in CASES.items()} == {
        name: lean for name, (_, _, lean) in CASES.items()
    }
    *_, engine = made("mistral, short window")
    assert "sliding window of 24" in engine.backend.describe()
    assert "'gpt2'" in refusal(CASES["gpt2"][1])
    biased = transformers.LlamaConfig(**SMALL, mlp_bias=True)
    assert "inner layer" in refusal(biased)
    # As a plain `config.json` has it, where fields that do not matter may be missing.
    raw = {"hidden_act": "silu", "max_position_embeddings": 512}
    for window, runs in ((None, True), (511, False), (512, True)):
        config = SimpleNamespace(**raw, model_type="mistral", sliding_window=window)
        assert supports(config) == runs
    config = SimpleNamespace(**raw, model_type="qwen2", use_sliding_window=False, sliding_window=24)
    assert supports(config)


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
        assert isinstance(engine.backend, LeanBackend if merge else TransformersBackend)
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
