"""Every chat template we name: the prompt is the template's, loss falls on the record alone.

The templates are written here by the structure of the published ones: which turns they know, what
they put around, before and into them, what they trim, and how a turn of the assistant ends.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

pytest.importorskip("transformers", reason="needs the llm extra")

import torch

from waggle.core import prompt
from waggle.core.canon import encode_decision
from waggle.core.errors import ConfigError
from waggle.core.protocols import Request
from waggle.core.schema import View, private_decision
from waggle.laws.dialogue import Dialogue
from waggle.models import fetch
from waggle.models.nano import CHAT_TEMPLATE, byte_tokenizer, random_llama
from waggle.scd.data.arrays import from_encoded
from waggle.scd.data.tokenize import ChatEncoder, end_of_turn
from waggle.scd.forward import attention
from waggle.scd.forward.ragged import lay_out
from waggle.scd.forward.run import run


class Template(NamedTuple):
    """A template, the token that ends its turns, and whether it shows history as it was spoken."""

    text: str
    end: str
    faithful: bool = True


_MARKED = "'<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n'"
_MARK = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

# A greeting of its own stands in where there is no system turn.
SMOLLM2 = (
    "{% for m in messages %}{% if loop.first and m.role != 'system' %}"
    "{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{% endif %}"
    f"{{{{ {_MARKED} }}}}{{% endfor %}}{_MARK}"
)
# The system turn is written apart from the loop; tools would be listed in it.
QWEN_INSTRUCT = (
    "{%- if messages[0].role == 'system' %}"
    "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}"
    "{%- for m in messages %}{%- if m.role == 'assistant' or m.role == 'user' %}"
    f"{{{{- {_MARKED} }}}}{{%- endif %}}{{%- endfor %}}{_MARK}"
)
# A model that may think: the last answer of a history is shown with an empty thought.
QWEN_HYBRID = (
    "{%- for m in messages %}{%- if m.role == 'assistant' and loop.last %}"
    "{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' + m.content + '<|im_end|>\\n' }}"
    f"{{%- else %}}{{{{- {_MARKED} }}}}{{%- endif %}}{{%- endfor %}}{_MARK}"
)
# A system header with dates is always there; contents are trimmed; no newline after a turn.
LLAMA = (
    "{{- bos_token }}{%- set told = '' %}{%- if messages[0].role == 'system' %}"
    "{%- set told = messages[0].content | trim %}{%- set messages = messages[1:] %}{%- endif %}"
    "{{- '<|start_header_id|>system<|end_header_id|>\\n\\nKnows until: 2023\\nToday: 2024\\n\\n' }}"
    "{{- told + '<|eot_id|>' }}{%- for m in messages %}"
    "{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
    "{{- (m.content | trim) + '<|eot_id|>' }}{%- endfor %}{%- if add_generation_prompt %}"
    "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"
)
# No system turn: it is put before the first user turn. Turns must alternate.
GEMMA = (
    "{{ bos_token }}{%- set first = '' %}{%- if messages[0].role == 'system' %}"
    "{%- set first = messages[0].content + '\\n\\n' %}{%- set messages = messages[1:] %}"
    "{%- endif %}{%- for m in messages %}{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('turns must alternate') }}{%- endif %}"
    "{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}"
    "{{- (first if loop.first else '') + (m.content | trim) + '<end_of_turn>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{%- endif %}"
)
# The older form refuses a system turn instead.
GEMMA_STRICT = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + GEMMA

TEMPLATES = {
    "nano and tiny-random": Template(CHAT_TEMPLATE, "<|im_end|>"),
    "smollm2-135m-instruct": Template(SMOLLM2, "<|im_end|>"),
    "qwen3-4b-instruct-2507": Template(QWEN_INSTRUCT, "<|im_end|>"),
    "qwen3 with thoughts": Template(QWEN_HYBRID, "<|im_end|>", faithful=False),
    "llama-3.1-8b-instruct": Template(LLAMA, "<|eot_id|>"),
    "gemma-3, instruction-tuned": Template(GEMMA, "<end_of_turn>"),
    "gemma before 3": Template(GEMMA_STRICT, "<end_of_turn>"),
}
SPECIAL = ["<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>",
           "<end_of_turn>", "<|im_start|>", "<|im_end|>"]  # fmt: skip


def tokenizer_of(template: Template) -> Any:
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    tokenizer.chat_template = template.text
    tokenizer.eos_token = template.end
    return tokenizer


def rendered(tokenizer: Any, view: View, record: str) -> str:
    """Return the whole chat with its answer, as the template itself writes it."""
    turns = [*prompt.messages(view), {"role": "assistant", "content": record}]
    try:
        return str(tokenizer.apply_chat_template(turns, tokenize=False))
    except Exception:
        first = f"{turns[0]['content']}\n{turns[1]['content']}"
        turns = [{"role": "user", "content": first}, turns[2]]
        return str(tokenizer.apply_chat_template(turns, tokenize=False))


def check(tokenizer: Any, views: list[View], end: str, faithful: bool = True) -> None:
    """Check that the answer's tokens, and nothing else, are the assistant's part of the chat."""
    assert end_of_turn(tokenizer) == end
    coder = ChatEncoder(tokenizer)
    records = [private_decision(view) for view in views]
    for view, record, one in zip(views, records, coder.encode(views, records), strict=True):
        text = encode_decision(record).decode()
        whole = rendered(tokenizer, view, text).rstrip()
        asked = coder.prompt_text(view)
        if faithful:
            assert asked + text + end == whole
            everything = tokenizer.encode(whole, add_special_tokens=False)
            assert [*one.prompt, *one.answer] == everything
        assert tokenizer.decode(one.answer, skip_special_tokens=False) == text + end
        assert tokenizer.decode(one.prompt, skip_special_tokens=False) == asked
        assert prompt.INSTRUCTION in asked and prompt.tail(view) in asked and text not in asked


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_answer_is_the_assistants_part_and_nothing_else(
    name: str, beacon_views: list[View]
) -> None:
    template = TEMPLATES[name]
    check(tokenizer_of(template), beacon_views[::7], template.end, template.faithful)


@pytest.mark.parametrize("name", TEMPLATES)
def test_only_the_tokens_of_the_answer_carry_loss(name: str, beacon_views: list[View]) -> None:
    tokenizer = tokenizer_of(TEMPLATES[name])
    model = random_llama(
        tokenizer, 0, 0.1, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=8192,
    )  # fmt: skip
    attention.install(model)
    view = beacon_views[0]
    (one,) = ChatEncoder(tokenizer).encode([view], [private_decision(view)])
    rows = from_encoded([one], [[]])
    with torch.no_grad():
        found = run(model, lay_out(rows.ids, rows.lengths, rows.prompts, device="cpu"))
    assert found.nll.numel() == len(one.answer) < len(one.prompt)


@pytest.mark.parametrize("name", TEMPLATES)
def test_shared_and_own_tokens_are_the_whole_prompt(name: str, beacon_views: list[View]) -> None:
    tokenizer = tokenizer_of(TEMPLATES[name])
    dialogue = Dialogue(tokenizer)
    requests = [Request(view) for view in beacon_views[::7]]
    requests += [Request(view, 0, ("json.syntax",), "{oops") for view in beacon_views[::7]]
    for request, (shared, own) in zip(requests, dialogue.tokens(requests), strict=True):
        text = dialogue.text(request)
        assert [*shared, *own] == tokenizer.encode(text, add_special_tokens=False)
        assert len(shared) > 400
        assert ("{oops" in text) == bool(request.feedback)


def test_the_real_tokenizer_of_the_default_backbone(beacon_views: list[View]) -> None:
    from transformers import AutoTokenizer

    try:
        folder = fetch.path("smollm2-135m-instruct")
    except ConfigError as error:
        pytest.skip(str(error))
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    check(tokenizer, beacon_views[::7], "<|im_end|>")
    stand_in = tokenizer_of(TEMPLATES["smollm2-135m-instruct"])
    stand_in.chat_template = stand_in.chat_template.replace("You are helpful.", "")
    for turns in (prompt.messages(beacon_views[0]), prompt.messages(beacon_views[0])[:1]):
        spoken = [t.apply_chat_template(turns, tokenize=False) for t in (tokenizer, stand_in)]
        assert spoken[0] == spoken[1]
