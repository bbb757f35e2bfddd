"""laws/local: every view's constrained answer is admissible at once; free answers are greedy."""

import copy
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the llm extra")

import torch

from benchmarks.workload import accepts
from tests.core.containment import contains
from tests.laws_llm.conftest import played
from waggle import plugins
from waggle.core.admit import violations
from waggle.core.canon import encode_view
from waggle.core.decode import parse
from waggle.core.errors import ConfigError
from waggle.core.protocols import Request
from waggle.laws.dialogue import Dialogue
from waggle.laws.local import LocalLaw
from waggle.laws.spelling import view_grammar
from waggle.models.nano import tiny_random

TASKS = ("beacon", "silo/III-26", "agentsnet/coloring", "swarmbench/pursuit")


@pytest.fixture(scope="module")
def tiny() -> Any:
    torch.set_num_threads(1)
    return tiny_random()


@pytest.mark.parametrize("task", TASKS)
def test_constrained_answers_are_executable_at_the_first_decode(tiny: Any, task: str) -> None:
    law = LocalLaw.over(*tiny, mode="constrained")
    views = played(task, 8, 3)[-16:]
    for view, decode in zip(views, law.decide([Request(view) for view in views]), strict=True):
        assert isinstance(decode.output, str)
        parsed = parse(decode.output)
        assert parsed.decision is not None, decode.output
        assert not parsed.normalized
        assert violations(view, parsed.decision) == ()
        assert contains(view, parsed.decision)
        assert decode.usage.calls == 1
        assert decode.usage.model_steps < decode.usage.output_tokens


def test_free_answers_are_those_of_generate(tiny: Any, beacon_views: Any) -> None:
    model, tokenizer = tiny
    law = LocalLaw.over(model, tokenizer, max_new_tokens=12)
    views = beacon_views[:6]
    decodes = law.decide([Request(view) for view in views])
    for view, decode in zip(views, decodes, strict=True):
        from waggle.core import prompt

        ids = tokenizer.apply_chat_template(
            prompt.messages(view), add_generation_prompt=True, return_tensors="pt"
        )["input_ids"]
        found = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
        )
        answer = tokenizer.decode(found[0, ids.shape[1] :], skip_special_tokens=True)
        assert decode.output == answer
        assert decode.usage.input_tokens == ids.shape[1]


def test_an_untaught_backbone_babbles_no_longer_than_it_may(beacon_views: Any) -> None:
    law = plugins.get_law("zero-shot", model="tiny-random", max_new_tokens=5)
    decode = law.decide([Request(beacon_views[0])])[0]
    assert 1 <= decode.usage.output_tokens <= 5
    with pytest.raises(ConfigError, match="max_new_tokens"):
        plugins.get_law("zero-shot", max_new_tokens=0)


def test_no_grammar_is_built_where_nothing_is_drafted(
    tiny: Any, beacon_views: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [Request(view) for view in beacon_views[:4]]
    want = [d.output for d in LocalLaw.over(*tiny, max_new_tokens=12).decide(requests)]
    law = LocalLaw.over(*tiny, max_new_tokens=12, speculate=False)

    def refuse(view: Any) -> Any:
        raise AssertionError("a grammar that nobody reads")

    monkeypatch.setattr("waggle.laws.spelling.view_grammar", refuse)
    assert [d.output for d in law.decide(requests)] == want


def test_batch_order_does_not_matter(tiny: Any, beacon_views: Any) -> None:
    law = LocalLaw.over(*tiny, mode="constrained", max_rows=4)
    requests = [Request(view) for view in beacon_views[:10]]
    forward = [decode.output for decode in law.decide(requests)]
    backward = [decode.output for decode in law.decide(requests[::-1])]
    assert forward == backward[::-1]
    assert law.decide([]) == []


def test_equal_prompts_are_decided_once_and_counted_each(tiny: Any, beacon_views: Any) -> None:
    law = LocalLaw.over(*tiny, mode="constrained")
    one, other = (Request(view) for view in beacon_views[:2])
    alone = law.decide([one])[0]
    decodes = law.decide([one, other, one, one])
    assert [d.output for d in decodes[::2]] == [alone.output] * 2
    assert decodes[3].output == alone.output
    assert {d.usage.calls for d in decodes} == {1}
    assert {d.usage.input_tokens for d in (alone, *decodes[::2])} == {alone.usage.input_tokens}
    assert [d.usage.model_steps > 0 for d in decodes] == [True, True, False, False]


def test_frames_write_what_the_template_writes(tiny: Any, beacon_views: Any) -> None:
    framed, fresh = Dialogue(tiny[1]), Dialogue(tiny[1])
    for view in beacon_views[:6]:
        assert framed.text(Request(view)) == fresh._rendered(Request(view))[0]
    assert all(frame is not None and frame.proven for frame in framed._frames.values())


def test_the_prompt_is_cut_without_changing_its_tokens(tiny: Any, beacon_views: Any) -> None:
    tokenizer = tiny[1]
    from waggle.core import prompt

    dialogue = Dialogue(tokenizer)
    requests = [Request(view) for view in beacon_views[:4]]
    requests.append(Request(beacon_views[0], feedback=("json.syntax",), previous="{"))
    for request, (shared, own) in zip(requests, dialogue.tokens(requests), strict=True):
        turns = prompt.messages(request.view, request.feedback, request.previous)
        whole = tokenizer.apply_chat_template(turns, add_generation_prompt=True)["input_ids"]
        assert [*shared, *own] == whole
        assert len(shared) > 200


def test_the_grammar_speaks_for_its_view_only(beacon_views: Any) -> None:
    """A record of one view is not spelled by another's grammar unless it is admissible there."""
    from waggle.core.canon import encode_decision
    from waggle.core.templates import sample

    crossed = 0
    for view, other in pairwise(beacon_views):
        for entropy in range(20):
            text = encode_decision(sample(view, entropy)).decode()
            assert accepts(view_grammar(view), text)
            if encode_view(view) == encode_view(other):
                continue
            allowed = contains(other, sample(view, entropy))
            assert accepts(view_grammar(other), text) == allowed
            crossed += not allowed
    assert crossed > 0


@pytest.mark.parametrize("mode", ["free", "constrained"])
def test_at_a_temperature_every_request_is_sampled_by_its_own_entropy(
    tiny: Any, beacon_views: Any, mode: Any
) -> None:
    """Equal prompts differ, whatever shares the batch; a second attempt has noise of its own."""
    law = LocalLaw.over(*tiny, mode=mode, temperature=1.5, max_new_tokens=12)
    requests = [Request(view, entropy) for view in beacon_views[3:5] for entropy in range(6)]
    samples = law.sample(requests)
    outputs = [sample.decode.output for sample in samples]
    assert len(set(outputs[:6])) > 1 and len(set(outputs[6:])) > 1
    assert [decode.output for decode in law.decide(requests[::-1])] == outputs[::-1]
    assert [law.decide([request])[0].output for request in requests[:3]] == outputs[:3]
    for request, sample in zip(requests, samples, strict=True):
        shared, own = Dialogue(tiny[1]).tokens([request])[0]
        assert sample.prompt_tokens == (*shared, *own)
        assert sample.completion.text == sample.decode.output
        assert sample.completion.choices and sample.decode.usage.model_steps > 0
        if mode == "constrained":
            assert accepts(view_grammar(request.view), sample.completion.text)
    retry = law._sampling(Request(beacon_views[0], 5, ("json.syntax",), "{"))
    assert retry != law._sampling(Request(beacon_views[0], 5))


def test_a_greedy_sample_is_the_decision_and_no_choice(tiny: Any, beacon_views: Any) -> None:
    law = LocalLaw.over(*tiny, mode="constrained")
    requests = [Request(view, entropy) for entropy, view in enumerate(beacon_views[:3])]
    samples = law.sample(requests)
    decided = [decode.output for decode in law.decide(requests)]
    assert [sample.decode.output for sample in samples] == decided
    assert not any(sample.completion.choices for sample in samples)


def test_a_refreshed_law_decides_with_the_weights_of_now(tiny: Any, beacon_views: Any) -> None:
    model = copy.deepcopy(tiny[0])
    law = LocalLaw.over(model, tiny[1], max_new_tokens=6)
    requests = [Request(view) for view in beacon_views[:3]]
    before = [decode.output for decode in law.decide(requests)]
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.flip(0))
    law.refresh(model)
    fresh = LocalLaw.over(model, tiny[1], max_new_tokens=6)
    after = [decode.output for decode in law.decide(requests)]
    assert after == [decode.output for decode in fresh.decide(requests)] != before


def test_bad_options_say_the_fix() -> None:
    with pytest.raises(ConfigError, match="greedy"):
        LocalLaw(temperature=-1.0)
    with pytest.raises(ConfigError, match="free or constrained"):
        LocalLaw(mode="loose")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="max_rows"):
        LocalLaw(max_rows=0)
    with pytest.raises(ConfigError, match="unknown"):
        LocalLaw(model="smolm2").decide([Request(played("beacon", 4, 1)[0])])
