"""A folder opened without transformers is the folder that transformers opens."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from waggle import shipped
from waggle.engine.engine import Engine
from waggle.engine.model.config import supports
from waggle.engine.model.decoder import Decoder
from waggle.engine.request import Prompt
from waggle.models import adapters
from waggle.models.bare import open_bare
from waggle.models.load import load, load_to_decode
from waggle.models.nano import byte_tokenizer

TURNS = [
    {"role": "system", "content": "You are one node."},
    {"role": "user", "content": 'View: {"h3x":1,"é":"<|im_end|>"}'},
]


def pairs(place: Path) -> tuple[Any, Any, Any, Any]:
    found = open_bare(place, "cpu", torch.float32, supports)
    assert found is not None
    return *found, *load(str(place), "cpu", "float32")


def places(folder: Path) -> list[Path]:
    return [folder, *([shipped.folder("nano")] if shipped.present("nano") else [])]


def test_weights_and_tables_are_the_same(folder: Path) -> None:
    for place in places(folder):
        bare, _, model, _ = pairs(place)
        one, other = Decoder(bare), Decoder(model)
        assert one.shape == other.shape
        assert torch.equal(one.embedding, other.embedding)
        assert torch.equal(one.head.weight, other.head.weight)
        assert all(torch.equal(a, b) for a, b in zip(one.tables, other.tables, strict=True))
        for a, b in zip(one.layers, other.layers, strict=True):
            assert torch.equal(a.qkv.weight, b.qkv.weight)
            assert torch.equal(a.down.weight, b.down.weight)
            assert torch.equal(a.norm_mid, b.norm_mid)


def test_tokens_and_chats_are_the_same(folder: Path) -> None:
    for place in places(folder):
        _, bare, _, tokenizer = pairs(place)
        options = {"tokenize": False, "add_generation_prompt": True}
        text = bare.apply_chat_template(TURNS, **options)
        assert text == tokenizer.apply_chat_template(TURNS, **options)
        tokens = bare.encode(text, add_special_tokens=False)
        assert tokens == tokenizer.encode(text, add_special_tokens=False)
        assert [tokens] == bare([text], add_special_tokens=False)["input_ids"]
        for skip in (True, False):
            assert bare.decode(tokens, skip_special_tokens=skip) == tokenizer.decode(
                tokens, skip_special_tokens=skip
            )
        assert sorted(bare.all_special_ids) == sorted(tokenizer.all_special_ids)
        assert bare.eos_token_id == tokenizer.eos_token_id
        assert bare.bos_token == tokenizer.bos_token
        assert len(bare) == len(tokenizer)
        assert all(
            bare.convert_ids_to_tokens(i) == tokenizer.convert_ids_to_tokens(i) for i in range(300)
        )


def test_answers_are_the_same(folder: Path) -> None:
    bare, words, model, tokenizer = pairs(folder)
    batch = [Prompt(words.encode(f"view {i}"), max_new_tokens=12) for i in range(5)]
    one, other = Engine(bare, words, max_rows=3), Engine(model, tokenizer, max_rows=3)
    assert one.eos == other.eos
    assert one.generate(batch) == other.generate(batch)


@pytest.fixture
def adapter(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter that PEFT itself wrote, with factors that change something."""
    peft: Any = pytest.importorskip("peft", reason="needs the llm extra")
    model, _ = load(str(folder), "cpu", "float32")
    config = peft.LoraConfig(
        r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "up_proj"]
    )
    adapted = peft.get_peft_model(model, config)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.copy_(0.2 * torch.randn(weight.shape, generator=generator))
    place = tmp_path_factory.mktemp("adapter")
    adapted.save_pretrained(str(place))
    return place


def test_an_adapter_is_folded_in_as_peft_folds_it(folder: Path, adapter: Path) -> None:
    found = open_bare(folder, "cpu", torch.float32, supports, adapter)
    assert found is not None
    model, _ = load(str(folder), "cpu", "float32", adapter=str(adapter))
    apart, _ = load(str(folder), "cpu", "float32", adapter=str(adapter), merge=False)
    plain, _ = load(str(folder), "cpu", "float32")
    one, other, base = Decoder(found[0]), Decoder(model), Decoder(plain)
    merged = Decoder(apart.merge_and_unload())
    for a, b, c, d in zip(one.layers, other.layers, merged.layers, base.layers, strict=True):
        assert torch.equal(a.qkv.weight, b.qkv.weight)
        assert torch.allclose(a.qkv.weight, c.qkv.weight, atol=1e-6)
        assert not torch.allclose(a.qkv.weight, d.qkv.weight, atol=1e-2)
        assert torch.equal(a.down.weight, d.down.weight)


def test_an_adapter_that_names_no_rank_has_that_of_peft(adapter: Path) -> None:
    config = json.loads((adapter / "adapter_config.json").read_text())
    del config["r"], config["lora_alpha"]
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    found = adapters.factors(adapter)
    assert found is not None and {pair.scale for pair in found.values()} == {8 / 8**0.5}


def test_an_adapter_that_is_more_than_factors_is_left_to_peft(folder: Path, adapter: Path) -> None:
    config = json.loads((adapter / "adapter_config.json").read_text())
    config["use_dora"] = True
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    assert open_bare(folder, "cpu", torch.float32, supports, adapter) is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (
            "config.json",
            {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2}},
        ),
        ("config.json", {"model_type": "gemma3_text"}),
        ("tokenizer_config.json", {"tokenizer_class": "T5Tokenizer"}),
    ],
)
def test_what_is_not_plain_is_left_to_transformers(folder: Path, name: str, change: Any) -> None:
    raw = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**raw, **change}))
    assert open_bare(folder, "cpu", torch.float32, supports) is None


def test_a_model_that_is_not_plain_is_loaded_all_the_same(folder: Path) -> None:
    raw = json.loads((folder / "tokenizer_config.json").read_text())
    raw["clean_up_tokenization_spaces"] = True
    (folder / "tokenizer_config.json").write_text(json.dumps(raw))
    assert open_bare(folder, "cpu", torch.float32, supports) is None
    model, _ = load_to_decode(str(folder), supports, "cpu", "float32")
    assert type(model).__name__ == "LlamaForCausalLM"


def test_a_law_starts_without_transformers(folder: Path) -> None:
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "from waggle.laws.local import LocalLaw\n"
        f"LocalLaw({str(folder)!r}, device='cpu').load()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-500:]


def test_a_mistral_folder_is_opened_by_the_table_of_the_engine(tmp_path: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
             "max_position_embeddings": 512}  # fmt: skip
    tokenizer = byte_tokenizer()
    for window in (None, 24):
        config = transformers.MistralConfig(
            vocab_size=len(tokenizer), eos_token_id=2, sliding_window=window, **sizes
        )
        place = tmp_path / str(window)
        transformers.MistralForCausalLM(config).save_pretrained(place)
        tokenizer.save_pretrained(place)
        found = open_bare(place, "cpu", torch.float32, supports)
        assert (found is None) == (window is not None)
        if found is not None:
            model, _ = load(str(place), "cpu", "float32")
            batch = [Prompt(tokenizer.encode(f"view {i}"), max_new_tokens=12) for i in range(3)]
            one, other = Engine(*found, max_rows=3), Engine(model, tokenizer, max_rows=3)
            assert one.generate(batch) == other.generate(batch)


def test_what_was_frozen_is_collected_at_exit() -> None:
    code = (
        "from waggle.models.load import freeze_loaded\n"
        "class Cycle:\n"
        "    def __del__(self): print('collected')\n"
        "cycle = Cycle()\n"
        "cycle.own = cycle\n"
        "freeze_loaded()\n"
        "del cycle\n"
        "print('exit')\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["exit", "collected"]
