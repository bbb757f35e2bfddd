"""Sampled answers: drawn from the softmax, by the request's own key, whatever shares the batch."""

import copy
from collections import Counter
from math import log
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from benchmarks.workload import accepts
from tests.engine.helpers import ids, prompts, row_engine
from waggle.core import seeds
from waggle.core.errors import ConfigError
from waggle.engine import sampling
from waggle.engine.constraint.grammar import Grammar, State, chain, choice
from waggle.engine.constraint.matcher import Matcher
from waggle.engine.engine import Engine, NotNumbers
from waggle.engine.request import Completion, Prompt, Sampling
from waggle.models.nano import random_llama

NEW = 12


@pytest.fixture(scope="module")
def lively(tiny: Any) -> tuple[Any, Any]:
    """A model that is never sure, so that every draw is one."""
    model = random_llama(
        tiny[1], 5, 0.08, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048,
    )  # fmt: skip
    return model.eval(), tiny[1]


def batch(engine: Engine, grammar: Grammar, count: int, first: int = 0) -> list[Prompt]:
    """Sampled prompts, free, forced to a length and constrained, at several temperatures."""
    bound = engine.matcher(grammar)
    return [
        Prompt(
            prompt.tail,
            prompt.prefix,
            bound if number % 3 == 0 else None,
            80 if number % 3 == 0 else NEW,
            ignore_end=number % 3 == 1,
            sampling=Sampling((0.5, 1.0, 1.7)[number % 4 % 3], first + number),
        )
        for number, prompt in enumerate(prompts(engine.tokenizer, count))
    ]


def said(completions: list[Completion]) -> list[Any]:
    """What answers are, to the precision that logits have."""
    return [
        (
            done.tokens,
            done.finish,
            [(at.offset, at.allowed, pytest.approx(at.logprob, abs=1e-4)) for at in done.choices],
        )
        for done in completions
    ]


def engines(model: Any, rows: int, **options: Any) -> dict[str, Engine]:
    """Engines as on a CPU and as on a GPU."""
    return {
        "cpu": Engine(*model, max_rows=rows, **options),
        "rows": row_engine(model, rows, **options),
        "multi-step": row_engine(model, rows, multi_step=True, **options),
    }


def test_the_noise_is_that_of_the_house() -> None:
    """By named hashes of integers, so that every device has the same."""
    keys, places, tokens = [0, 5, (1 << 63) - 1], [0, 3, 900], [0, 1, 49_151]
    own = sampling.own_columns([Sampling(2.0, key) for key in keys], [places] * 3)
    mixed = [seeds.mix(key, place) for key in keys for place in places]
    assert [bits % 2**64 for bits in own[:, 0].tolist()] == mixed
    assert own[:, 1].view(torch.float64).tolist() == [2.0] * 9
    found = sampling.gumbel(own[:, :1], torch.tensor([tokens]))
    uniform = [[(seeds.mix(seed, token) >> 1) / 2**63 for token in tokens] for seed in mixed]
    wanted = [[-log(-log(1 - u)) for u in row] for row in uniform]
    assert torch.allclose(found, torch.tensor(wanted), atol=1e-5)


def test_the_noise_is_gumbel_distributed() -> None:
    own = sampling.own_columns([Sampling(1.0, 9)], [range(400)])
    noise = sampling.gumbel(own[:, :1], torch.arange(500).unsqueeze(0)).double()
    assert noise.isfinite().all()
    assert abs(noise.mean().item() - 0.5772) < 0.01
    assert abs(noise.var().item() - torch.pi**2 / 6) < 0.02
    assert noise.max() > 11, "the tail of 200,000 numbers"


def chi_square(found: Counter[Any], wanted: dict[Any, float]) -> tuple[float, int]:
    """Compare counts with probabilities; what is rare is counted together."""
    count = found.total()
    rare = {answer for answer, p in wanted.items() if p * count < 5}
    cells = [(found[answer], p * count) for answer, p in wanted.items() if answer not in rare]
    cells.append((sum(found[a] for a in rare), sum(wanted[a] for a in rare) * count))
    return sum((f - w) ** 2 / max(w, 1e-3) for f, w in cells), len(cells) - 1


@pytest.mark.parametrize(("kind", "temperature"), [("cpu", 0.7), ("rows", 1.5)])
@pytest.mark.parametrize("bound", [False, True])
def test_frequencies_are_those_of_the_softmax(
    lively: Any, kind: str, temperature: float, bound: bool
) -> None:
    """Of whole answers to one prompt: two choices under a grammar, or one of any token."""
    engine, tail = engines(lively, 128)[kind], ids(lively[1], "view 7: ab")
    grammar = engine.matcher(Grammar(chain(choice("a", "b"), choice(*"0123456789"))))
    asked = Prompt(tail, (), grammar, 9) if bound else Prompt(tail, max_new_tokens=1)
    done = engine.generate(
        [replace(asked, sampling=Sampling(temperature, key)) for key in range(1000)]
    )
    wanted: dict[Any, float] = {(): 1.0}
    every = tuple(range(len(lively[1])))
    for tokens in [ids(lively[1], "ab"), ids(lively[1], "0123456789")] if bound else [every]:
        before, wanted = wanted, {}
        for answer, p in before.items():
            with torch.no_grad():
                logits = lively[0](torch.tensor([[*tail, *answer]])).logits[0, -1, tokens]
            likely = (logits / temperature).softmax(-1).tolist()
            wanted |= {(*answer, t): p * q for t, q in zip(tokens, likely, strict=True)}
    found = Counter(d.tokens or (min(engine.eos),) for d in done)
    assert set(found) <= set(wanted)
    value, freedom = chi_square(found, wanted)
    assert freedom >= 10
    assert abs(value - freedom) < 4 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("kind", ["cpu", "rows", "multi-step"])
def test_log_probabilities_are_those_of_a_plain_forward(
    lively: Any, record_grammar: Grammar, kind: str
) -> None:
    """Of every choice; whatever is not listed as one was forced."""
    engine = engines(lively, 8)[kind]
    check_choices(engine, lively[0], record_grammar, 18, near=1e-5)


def check_choices(engine: Engine, model: Any, grammar: Grammar, count: int, near: float) -> None:
    """Compare the choices of sampled answers, free and constrained, with what a model computes."""
    asked = batch(engine, grammar, count)
    for prompt, done in zip(asked, engine.generate(asked), strict=True):
        assert prompt.sampling is not None
        start = len(prompt.prefix) + len(prompt.tail)
        whole = torch.tensor([[*prompt.prefix, *prompt.tail, *done.tokens]], device=model.device)
        with torch.no_grad():
            found = model(whole).logits[0, start - 1 :].float().cpu()
        logits = found / prompt.sampling.temperature
        banned = engine.eos if prompt.ignore_end else frozenset()
        for at in done.choices:
            tokens = sorted(at.allowed or set(range(logits.shape[1])) - banned)
            taken = tokens.index((*done.tokens, min(engine.eos))[at.offset])
            assert at.logprob == pytest.approx(
                logits[at.offset, tokens].log_softmax(-1)[taken].item(), abs=near
            )
        offsets = [at.offset for at in done.choices]
        if prompt.grammar is None:
            assert offsets == list(range(len(done.tokens) + (done.finish == "stop")))
        else:
            assert accepts(grammar, done.text)
            assert offsets == choices_of(prompt.grammar, done.tokens)


def choices_of(matcher: Matcher, answer: tuple[int, ...]) -> list[int]:
    """Where an answer had a choice, by following it token by token."""
    state: State | None = matcher.grammar.start()
    found = []
    for offset, token in enumerate(answer):
        assert state is not None
        if len(matcher.mask(state)) > 1:
            found.append(offset)
        state = matcher.accept_one(state, token)
    return found


def test_an_answer_depends_on_its_own_key_alone(lively: Any, record_grammar: Grammar) -> None:
    """Not on rows, order, drafts, prefixes, or how the engine computes."""
    alone = Engine(*lively, max_rows=1, speculate=False, reuse_prefix=False)
    wanted = said([alone.generate([p])[0] for p in batch(alone, record_grammar, 8)])
    for rows, speculate in ((3, True), (8, False)):
        for engine in engines(lively, rows, speculate=speculate).values():
            asked = batch(engine, record_grammar, 8)
            assert said(engine.generate(asked)) == wanted
            # What was said before is drafted now.
            assert said(engine.generate(asked[::-1])) == wanted[::-1]


def test_drafts_are_accepted_and_wrong_ones_do_not_show(
    lively: Any, record_grammar: Grammar
) -> None:
    engine = Engine(*lively, max_rows=12)
    asked = batch(engine, record_grammar, 24)
    first, again = engine.generate(asked), engine.generate(asked)
    assert said(first) == said(again)
    accepted = sum(done.usage.accepted_tokens for done in again)
    assert 0 < accepted < sum(done.usage.drafted_tokens for done in again)
    steps = [sum(done.usage.model_steps for done in some) for some in (first, again)]
    assert steps[1] < steps[0]


def test_keys_differ(lively: Any, record_grammar: Grammar) -> None:
    engine = Engine(*lively, max_rows=32)
    tail = ids(lively[1], "view")
    for grammar in (None, engine.matcher(record_grammar)):
        asked = [
            Prompt(tail, (), grammar, 80 if grammar else NEW, sampling=Sampling(1.0, key))
            for key in range(32)
        ]
        answers = {done.tokens for done in engine.generate(asked)}
        assert len(answers) > (24 if grammar is None else 8)


@pytest.mark.parametrize("kind", ["cpu", "rows", "multi-step"])
def test_greedy_and_sampled_prompts_share_a_batch(
    lively: Any, record_grammar: Grammar, kind: str
) -> None:
    engine = engines(lively, 9)[kind]
    greedy = [
        *prompts(lively[1], 6),
        *prompts(lively[1], 6, 80, grammar=engine.matcher(record_grammar)),
        *prompts(lively[1], 4, ignore_end=True),
    ]
    drawn = batch(engine, record_grammar, 16)
    apart = said(engine.generate(greedy)) + said(engine.generate(drawn))
    mixed = engine.generate([prompt for pair in zip(greedy, drawn, strict=True) for prompt in pair])
    assert said([*mixed[::2], *mixed[1::2]]) == apart
    assert not any(done.choices for done in mixed[::2])
    assert all(done.choices for done in mixed[1::2])


def test_the_colder_the_greedier(lively: Any, record_grammar: Grammar) -> None:
    engine = Engine(*lively, max_rows=8)
    asked = batch(engine, record_grammar, 9)
    cold, greedy = (
        engine.generate([replace(prompt, sampling=each) for prompt in asked])
        for each in (Sampling(0.001, 3), None)
    )
    assert [done.tokens for done in cold] == [done.tokens for done in greedy]


def test_any_model_can_be_sampled(record_grammar: Grammar, tiny: Any) -> None:
    """Also one that the engine does not run itself, one row at a time, and with EOS first."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(4)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tiny[1]),
            n_positions=512,
            n_embd=16,
            n_layer=1,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
        )
    ).eval()
    engine = Engine(model, tiny[1], max_rows=4)
    asked = batch(engine, record_grammar, 6)
    done = engine.generate(asked)
    assert said(engine.generate(asked[::-1])) == said(done)[::-1]
    for prompt, answer in zip(asked, done, strict=True):
        assert answer.choices and all(at.logprob < 0 for at in answer.choices)
        assert prompt.grammar is None or accepts(record_grammar, answer.text)


def test_an_end_that_is_drawn_is_a_choice(lively: Any) -> None:
    """Behind the last token, and nothing that a draft went on with counts."""
    engine = Engine(*lively, max_rows=16)
    engine.eos = frozenset(range(0, len(lively[1]), 9))
    asked = [
        Prompt(p.tail, p.prefix, max_new_tokens=40, sampling=Sampling(1.0, key))
        for key, p in enumerate(prompts(lively[1], 16))
    ]
    done = engine.generate(asked)
    assert {d.finish for d in done} == {"stop"}
    for answer in done:
        assert [c.offset for c in answer.choices] == list(range(len(answer.tokens) + 1))
    assert said(engine.generate(asked)) == said(done)


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("kind", ["cpu", "rows"])
def test_what_is_no_number_is_not_drawn(
    lively: Any, record_grammar: Grammar, kind: str, bound: bool
) -> None:
    engine = engines((copy.deepcopy(lively[0]), lively[1]), 4)[kind]
    engine.backend.decoder.norm.fill_(float("nan"))  # type: ignore[attr-defined]
    grammar = engine.matcher(record_grammar) if bound else None
    with pytest.raises(NotNumbers):
        engine.generate(prompts(lively[1], 2, grammar=grammar, sampling=Sampling(1.0, 1)))


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_no_temperature_is_no_sampling(temperature: float) -> None:
    with pytest.raises(ConfigError, match="greedily"):
        Sampling(temperature, 1)
    with pytest.raises(ConfigError, match="bits"):
        Sampling(1.0, 1 << 63)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cuda_draws_what_a_cpu_draws(
    lively: Any, record_grammar: Grammar, dtype: torch.dtype
) -> None:
    """In float32 all of it; in bfloat16, where steps are captured, what rounding leaves of it."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    model = copy.deepcopy(lively[0]).to(dtype)
    wanted, found = (
        Engine(copy.deepcopy(model).to(device, kind), lively[1], max_rows=64)
        for device, kind in (("cpu", torch.float32), ("cuda", dtype))
    )
    expected = wanted.generate(batch(wanted, record_grammar, 300))
    for _ in range(4):
        done = found.generate(batch(found, record_grammar, 300))
        if dtype == torch.float32:
            assert said(done) == said(expected)
        pairs = zip(done, expected, strict=True)
        first = [
            (a.choices[0].offset, a.tokens[: a.choices[0].offset + 1])
            == (b.choices[0].offset, b.tokens[: b.choices[0].offset + 1])
            for a, b in pairs
        ]
        assert sum(first) > 270


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-3), (torch.bfloat16, 0.1)])
def test_cuda_log_probabilities_are_those_of_a_plain_forward(
    lively: Any, record_grammar: Grammar, dtype: torch.dtype, near: float
) -> None:
    """In bfloat16 the passes of engine and model round apart."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    model = copy.deepcopy(lively[0]).to("cuda", dtype)
    engine = Engine(copy.deepcopy(model), lively[1], max_rows=64)
    check_choices(engine, model, record_grammar, 120, near)


@pytest.mark.gpu
def test_on_cuda_an_answer_depends_on_its_own_key_alone(
    lively: Any, record_grammar: Grammar
) -> None:
    """Not on rows, order or drafts; in float32, where rounding does not decide."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    model = copy.deepcopy(lively[0]).to("cuda")
    alone = Engine(copy.deepcopy(model), lively[1], max_rows=1, speculate=False)
    wanted = said([alone.generate([p])[0] for p in batch(alone, record_grammar, 24)])
    engine = Engine(copy.deepcopy(model), lively[1], max_rows=32)
    asked = batch(engine, record_grammar, 24)
    assert said(engine.generate(asked)) == wanted
    assert said(engine.generate(asked[::-1])) == wanted[::-1]
