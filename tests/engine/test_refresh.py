"""After a refresh an engine answers as a fresh one does, and keeps what it has captured."""

import copy
from typing import Any

import pytest
import torch

from tests.engine.helpers import answers, prompts, row_engine
from waggle.core.errors import ConfigError
from waggle.engine.constraint.grammar import Grammar
from waggle.engine.engine import Engine
from waggle.engine.model.int8 import int8_works
from waggle.engine.request import Prompt, Sampling
from waggle.models.nano import random_llama


def trained(model: Any, seed: int = 1) -> None:
    """Change every weight in place, as the step of an optimizer does."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            scale = 0.2 * (weight.std() or 1.0)  # norms are all ones before they are trained
            weight += scale * torch.randn(weight.shape, generator=generator).to(weight)


def asked(engine: Engine, grammar: Grammar) -> list[Prompt]:
    bound = engine.matcher(grammar)
    return [
        *prompts(engine.tokenizer, 6),
        *prompts(engine.tokenizer, 6, 80, grammar=bound),
        *prompts(engine.tokenizer, 6, 80, grammar=bound, sampling=Sampling(1.0, 7)),
    ]


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("cpu", "llama"),
        pytest.param(
            "int8", "llama", marks=pytest.mark.skipif(not int8_works(), reason="no 8-bit products")
        ),
        ("rows", "qwen3"),
        ("multi-step", "qwen3"),
    ],
)
def test_a_refreshed_engine_answers_as_a_fresh_one(
    tiny: Any, record_grammar: Grammar, kind: str, family: str
) -> None:
    model, tokenizer = copy.deepcopy(tiny[0]), tiny[1]
    if family == "qwen3":
        model = qwen(tokenizer)
    engine = (
        row_engine((model, tokenizer), 8, multi_step=kind == "multi-step")
        if kind in ("rows", "multi-step")
        else Engine(model, tokenizer, max_rows=8, int8=kind == "int8")
    )
    before = answers(engine, asked(engine, record_grammar))
    captured = getattr(getattr(engine.backend, "graphs", None), "_graphs", {}).copy()
    trained(model)
    engine.refresh(model)
    fresh = Engine(model, tokenizer, max_rows=8, int8=kind == "int8")
    wanted = answers(fresh, asked(fresh, record_grammar))
    assert wanted != before
    for _ in range(2):
        assert answers(engine, asked(engine, record_grammar)) == wanted
    kept = getattr(getattr(engine.backend, "graphs", None), "_graphs", {})
    assert all(kept[size] is graph for size, graph in captured.items())


def qwen(tokenizer: Any) -> Any:
    """A model with norms of queries and keys, and with an LM head of its own."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=2048,
        tie_word_embeddings=False, bos_token_id=0, eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.2,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def test_a_learner_may_have_another_model_in_another_dtype(tiny: Any) -> None:
    """The engine decodes with half of its bits; its own model is written, the learner's is not."""
    learner = copy.deepcopy(tiny[0]).double()
    engine = Engine(copy.deepcopy(learner).float(), tiny[1], max_rows=8)
    trained(learner)
    kept = [weight.clone() for weight in learner.parameters()]
    engine.refresh(learner)
    fresh = Engine(copy.deepcopy(learner).float(), tiny[1], max_rows=8)
    batch = prompts(tiny[1], 8)
    assert answers(engine, batch) == answers(fresh, batch)
    assert all(map(torch.equal, kept, learner.parameters()))


def test_an_adapter_is_merged_first(tiny: Any) -> None:
    peft = pytest.importorskip("peft")
    base = copy.deepcopy(tiny[0])
    engine = Engine(copy.deepcopy(base), tiny[1], max_rows=8)
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj", "o_proj"]))
    trained(adapted)
    with pytest.raises(ConfigError, match="merge_adapter"):
        engine.refresh(adapted.get_base_model())
    adapted.merge_adapter()
    engine.refresh(adapted.get_base_model())
    adapted.unmerge_adapter()
    merged = Engine(adapted.merge_and_unload(), tiny[1], max_rows=8)
    assert answers(engine, prompts(tiny[1], 8)) == answers(merged, prompts(tiny[1], 8))


def test_what_cannot_be_taken_over_is_said(tiny: Any) -> None:
    engine = Engine(*tiny, max_rows=2)
    other = random_llama(
        tiny[1], 3, 0.1, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
    )  # fmt: skip
    with pytest.raises(ConfigError, match="shape"):
        engine.refresh(other)
    run, refused = engine.backend.run, []

    def refreshing(rows: Any) -> Any:
        engine._driver.release()  # as another thread finds it between two steps
        with pytest.raises(ConfigError, match="between two calls"):
            engine.refresh(tiny[0])
        engine._driver.acquire()
        refused.append(rows)
        return run(rows)

    engine.backend.run = refreshing  # type: ignore[method-assign]
    engine.generate(prompts(tiny[1], 1))
    assert refused


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_captured_steps_read_the_weights_of_now(
    tiny: Any, record_grammar: Grammar, dtype: torch.dtype
) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    learner = copy.deepcopy(tiny[0])
    engine = Engine(copy.deepcopy(learner).to("cuda", dtype), tiny[1], max_rows=64)
    before = [answers(engine, asked(engine, record_grammar)) for _ in range(4)][-1]
    trained(learner)
    engine.refresh(learner)
    fresh = Engine(copy.deepcopy(learner).to("cuda", dtype), tiny[1], max_rows=64)
    wanted, found = (
        [answers(each, asked(each, record_grammar)) for _ in range(4)][-1]
        for each in (fresh, engine)
    )
    right = sum(a == b for a, b in zip(found, wanted, strict=True))
    assert right == len(wanted) if dtype == torch.float32 else right > 0.8 * len(wanted)
    assert sum(a == b for a, b in zip(found, before, strict=True)) < 0.8 * len(wanted)
