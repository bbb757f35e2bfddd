"""Loss covers the assistant's tokens only, for every chat template we name; packing is exact."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from waggle.core.canon import encode_decision
from waggle.core.schema import Decision
from waggle.corpus.views.frames import made_up_frame
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import make
from waggle.models.nano import CHAT_TEMPLATE, byte_tokenizer, tiny_random
from waggle.scd.data.tokens import Coder, end_of_turn
from waggle.scd.forward import packing
from waggle.scd.forward.forward import Encoded, run
from waggle.scd.forward.packing import lay_out

LLAMA = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n"
    "{{ m['content'] }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}"
    "{{ raise_exception('no system turn') }}{% endif %}"
    "<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
TEMPLATES = {
    "chatml (smollm2, qwen3, nano, tiny-random)": (CHAT_TEMPLATE, "<|im_end|>"),
    "llama-3.1": (LLAMA, "<|eot_id|>"),
    "gemma instruction": (GEMMA, "<end_of_turn>"),
    "base model without a template": (None, "<|im_end|>"),
}


def example(seed: int = 0) -> Any:
    draw = Draw(seed, "test")
    return make("relay", made_up_frame(draw, "ports"), draw)


@pytest.mark.parametrize("name", TEMPLATES)
def test_only_the_assistant_record_carries_loss(name: str) -> None:
    template, end = TEMPLATES[name]
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = template
    assert end_of_turn(tokenizer) == end
    coder = Coder(tokenizer)
    view, decision = example(), Decision("WAIT", None, (), None)
    (one,) = coder.encode([view], [decision])
    record = encode_decision(decision).decode()
    assert tokenizer.decode(one.answer, skip_special_tokens=False) == record + end
    prompt = tokenizer.decode(one.prompt, skip_special_tokens=False)
    assert record not in prompt and '"private"' in prompt
    assert len(one) == len(one.prompt) + len(one.answer) - 1
    whole = coder.prompt_text(view) + record
    assert tokenizer.decode(one.fed).startswith(whole[: len(whole) // 2])


def test_a_packed_pass_gives_every_sequence_what_it_gets_alone() -> None:
    model, _ = tiny_random()
    head = list(range(10, 60))
    some = [Encoded(head + list(range(70, 70 + k)), list(range(100, 105 + k))) for k in (3, 9, 20)]
    alone = []
    for sequence in some:
        ids = torch.tensor([[*sequence.prompt, *sequence.answer]])
        out = model(input_ids=ids, output_hidden_states=True)
        start = len(sequence.prompt) - 1
        nll = torch.nn.functional.cross_entropy(
            out.logits[0, start:-1], torch.tensor(sequence.answer), reduction="none"
        )
        alone.append((out.hidden_states[-1][0, start], nll))
    packing.install(model)
    for share in (True, False):
        found = run(model, some, "cpu", share=share)
        assert found.run == (sum(map(len, some)) - (2 * 52 if share else 0))
        for i, (hidden, nll) in enumerate(alone):
            assert torch.allclose(found.hidden[i], hidden, atol=1e-5)
            assert torch.allclose(found.nll[found.record == i], nll, atol=1e-5)


def test_the_shared_prefix_never_swallows_a_whole_prompt() -> None:
    same = [list(range(40)), list(range(40))]
    layout = lay_out(same, [40, 40], "cpu")
    assert layout.prefix == 39 and list(layout.lengths) == [1, 1]


def test_sliding_windows_are_kept() -> None:
    layout = lay_out([list(range(20)), list(range(20))], [20, 20], "cpu")
    mask = layout.mask(1, 4)
    assert mask.shape == (1, 20) and mask.sum().item() == 4
