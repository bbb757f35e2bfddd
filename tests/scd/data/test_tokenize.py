"""Loss covers the assistant's tokens only, for every chat template we name."""

from __future__ import annotations

from typing import Any

import pytest

from waggle.core.canon import encode_decision
from waggle.core.schema import Decision
from waggle.corpus.views.frames import made_up_frame
from waggle.corpus.views.rng import Draw
from waggle.corpus.views.situations import make
from waggle.models.nano import CHAT_TEMPLATE, byte_tokenizer
from waggle.scd.data.tokenize import FREQUENT, ChatEncoder, end_of_turn

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
    encoder = ChatEncoder(tokenizer)
    view, decision = example(), Decision("WAIT", None, (), None)
    (one,) = encoder.encode([view], [decision])
    record = encode_decision(decision).decode()
    assert tokenizer.decode(one.answer, skip_special_tokens=False) == record + end
    prompt = tokenizer.decode(one.prompt, skip_special_tokens=False)
    assert record not in prompt and '"private"' in prompt
    whole = encoder.prompt_text(view) + record + end
    found = tokenizer.backend_tokenizer.encode(whole, add_special_tokens=False)
    assert [*one.prompt, *one.answer] == found.ids


def test_the_beginning_of_a_frequent_contract_is_encoded_once_to_the_same_tokens() -> None:
    tokenizer = byte_tokenizer()
    encoder, view = ChatEncoder(tokenizer), example()
    texts = [encoder.prompt_text(view)] * FREQUENT
    assert encoder.prompts([view] * FREQUENT) == tokenizer(texts)["input_ids"]
    assert encoder.answers([None]) == [[]]
