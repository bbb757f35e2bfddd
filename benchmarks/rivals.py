"""How fast do other libraries decode the same prompts with the same weights, on a CPU?

    waggle bench engine --dtype float32 --rivals all --fastest

Runs OpenVINO GenAI with its prefix cache (on x86), CTranslate2 with its static prompt and llama.cpp
with the prefix's KV cache cells copied to every row, each in its fastest precision and in float32.
Weights are converted before timing starts. Decoding is greedy, to the same length, on as many
threads as torch uses. Invariant: in float32 the tokens are those of `generate`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.workload import Answers, Ask, Contender, Setup, cut
from waggle.core.errors import ConfigError, suggest
from waggle.engine.constraint.vocabulary import eos_tokens
from waggle.models.fetch import quiet

INSTALL = "pip install 'waggle-swarm[rivals]'"
AT_ONCE = 4096
"""Maximum number of tokens that a library may run in one pass."""
SEQUENCES = 256
"""Maximum number of sequences in a llama.cpp context."""


def chosen(names: str) -> list[str]:
    """Return the libraries of a comma-separated list; `all` stands for every library.

    Raises:
        ConfigError: for an unknown name.
    """
    asked = [name.strip() for name in names.split(",") if name.strip()]
    for name in asked:
        if name not in (*LIBRARIES, "all"):
            raise ConfigError(
                f"rival {name!r} is unknown{suggest(name, list(LIBRARIES))}; "
                f"use all, or some of {', '.join(LIBRARIES)}"
            )
    return list(LIBRARIES) if "all" in asked else list(dict.fromkeys(asked))


def require(setup: Setup) -> None:
    """Accept only a plain Llama on a CPU, which all of the libraries support.

    Raises:
        ConfigError: for a GPU or another model.
    """
    if setup.device != "cpu":
        raise ConfigError(f"--rivals measures on a CPU, not on {setup.device}; give --device cpu")
    config = setup.model.config
    rope = getattr(config, "rope_parameters", None) or {}
    if config.model_type != "llama" or rope.get("rope_type", "default") != "default":
        raise ConfigError(f"--rivals takes a plain Llama, not {config.model_type!r}; leave it out")


def contenders(
    names: Sequence[str], setup: Setup, folder: Path, fastest: bool
) -> tuple[list[Contender], dict[str, str]]:
    """Return the configurations of the libraries, and the reason for each missing one.

    Converted weights are written to `folder` once.
    """
    found: list[Contender] = []
    missing: dict[str, str] = {}
    for name in names:
        modules, variants = LIBRARIES[name]
        absent = next((module for module in modules if find_spec(module) is None), None)
        if absent:
            missing[name] = f"{absent} is not installed; {INSTALL}"
            continue
        known = [Contender(f"{name}, {how}", work) for how, work in variants(setup, folder)]
        found += known[-1:] if fastest else known
    return found, missing


def _threads() -> int:
    torch: Any = import_module("torch")
    return int(torch.get_num_threads())


def _ends(setup: Setup) -> list[int]:
    return sorted(eos_tokens(setup.model, setup.tokenizer))


def _prefixes(setup: Setup) -> list[tuple[int, ...]]:
    asks = (*setup.work, *setup.warm, *setup.fresh)
    return list(dict.fromkeys(ask.prefix for ask in asks))


def _head_width(config: Any) -> int:
    return int(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )


Variants = list[tuple[str, Callable[[], Any]]]
"""Configurations by name, each with a callable that opens it; the fastest is last."""


# CTranslate2.


def _ctranslate2(setup: Setup, folder: Path) -> Variants:
    return [(kind, partial(_open_ctranslate2, setup, folder, kind)) for kind in ("float32", "int8")]


@contextmanager
def _open_ctranslate2(setup: Setup, folder: Path, precision: str) -> Iterator[Any]:
    library: Any = import_module("ctranslate2")
    converters: Any = import_module("ctranslate2.converters")
    source, target = folder / "transformers", folder / "ctranslate2"
    if not target.is_dir():
        with quiet():
            setup.model.save_pretrained(source)
            setup.tokenizer.save_pretrained(source)
            converters.TransformersConverter(str(source)).convert(str(target))
    generator = library.Generator(
        str(target), device="cpu", compute_type=precision, inter_threads=1,
        intra_threads=_threads(),
    )  # fmt: skip
    yield partial(_decode_ctranslate2, setup, generator)
    generator.unload_model()


def _decode_ctranslate2(setup: Setup, generator: Any, asks: Sequence[Ask], count: int) -> Answers:
    spell, prefixes = setup.tokenizer.convert_ids_to_tokens, _prefixes(setup)
    options: dict[str, Any] = {"min_length": count} if setup.forced else {}
    shares = len(prefixes) == 1  # the library keeps the state of one prompt
    if shares:
        options |= {"static_prompt": spell(list(prefixes[0])), "cache_static_prompt": True}
    done = generator.generate_batch(
        [spell([*(() if shares else ask.prefix), *ask.tail]) for ask in asks],
        max_length=count, sampling_topk=1, end_token=_ends(setup), include_prompt_in_result=False,
        **options,
    )  # fmt: skip
    return [cut(setup, found.sequences_ids[0]) for found in done]


# llama.cpp, with the low-level bindings of llama-cpp-python: a sequence is a row.


def _llama(setup: Setup, folder: Path) -> Variants:
    return [(kind, partial(_open_llama, setup, folder, kind)) for kind in ("F32", "Q4_0")]


@contextmanager
def _open_llama(setup: Setup, folder: Path, precision: str) -> Iterator[Any]:
    library: Any = import_module("llama_cpp")
    silent = library.llama_log_callback(lambda *_: None)
    library.llama_log_set(silent, None)
    library.llama_backend_init()
    file = folder / f"{precision}.gguf"
    if not file.is_file():
        write_gguf(setup.model, file, precision)
    wish = library.llama_model_default_params()
    wish.n_gpu_layers = 0
    model = library.llama_model_load_from_file(str(file).encode(), wish)
    shared = len(_prefixes(setup))
    rows = setup.sizes.batch + (shared if setup.sizes.batch + shared <= SEQUENCES else 0)
    wish = library.llama_context_default_params()
    wish.n_seq_max = rows
    wish.n_ctx = rows * (setup.longest + setup.sizes.new_tokens + 64)  # the library rounds
    wish.n_batch = AT_ONCE
    wish.n_threads = wish.n_threads_batch = _threads()
    if precision == "F32":  # keys and values are rounded to sixteen bits otherwise
        wish.type_k = wish.type_v = library.GGML_TYPE_F32
    context = library.llama_init_from_model(model, wish)
    batch = library.llama_batch_init(AT_ONCE, 0, 1)
    try:
        yield _Sequences(setup, library, context, batch, rows > setup.sizes.batch).decode
    finally:
        library.llama_batch_free(batch)
        library.llama_free(context)
        library.llama_model_free(model)


Fed = tuple[int, int, int, bool]
"""An input token: its id, its position, its row, and whether its logits are requested."""


class _Sequences:
    """Rows of a batch as sequences of one llama.cpp context."""

    def __init__(self, setup: Setup, library: Any, context: Any, batch: Any, shares: bool) -> None:
        self._setup, self._library, self._context, self._batch = setup, library, context, batch
        self._memory = library.llama_get_memory(context)
        self._shares = shares
        self._kept: dict[tuple[int, ...], int] = {}
        self._ends = _ends(setup)

    def decode(self, asks: Sequence[Ask], count: int) -> Answers:
        """Decode one batch; rows that have ended are dropped from it."""
        ends = () if self._setup.forced else self._ends
        answers: list[list[int]] = [[] for _ in asks]
        last = [len(ask.prefix) + len(ask.tail) - 1 for ask in asks]
        said = self._run([fed for row, ask in enumerate(asks) for fed in self._prompt(row, ask)])
        while said:
            for row, token in said.items():
                answers[row].append(token)
            going = [r for r, t in said.items() if len(answers[r]) < count and t not in ends]
            said = self._run([(said[r], last[r] + len(answers[r]), r, True) for r in going])
        return [cut(self._setup, answer) for answer in answers]

    def _prompt(self, row: int, ask: Ask) -> list[Fed]:
        """Clear a row, copy the cells of its prefix, and return the rest of its prompt."""
        self._library.llama_memory_seq_rm(self._memory, row, -1, -1)
        if not self._shares:
            return _fed((*ask.prefix, *ask.tail), 0, row, True)
        if ask.prefix not in self._kept:
            kept = self._kept[ask.prefix] = self._setup.sizes.batch + len(self._kept)
            self._run(_fed(ask.prefix, 0, kept, False))
        self._library.llama_memory_seq_cp(self._memory, self._kept[ask.prefix], row, -1, -1)
        return _fed(ask.tail, len(ask.prefix), row, True)

    def _run(self, feed: list[Fed]) -> dict[int, int]:
        """Run tokens; return the most likely next token of every row that requests logits."""
        said: dict[int, int] = {}
        for first in range(0, len(feed), AT_ONCE):
            part, batch = feed[first : first + AT_ONCE], self._batch
            batch.n_tokens = len(part)
            for index, (token, place, row, asked) in enumerate(part):
                batch.token[index], batch.pos[index], batch.logits[index] = token, place, asked
                batch.n_seq_id[index], batch.seq_id[index][0] = 1, row
            if code := self._library.llama_decode(self._context, batch):
                raise RuntimeError(f"llama_decode returned {code}")
            said |= {row: self._best(i) for i, (_, _, row, asked) in enumerate(part) if asked}
        return said

    def _best(self, index: int) -> int:
        np: Any = import_module("numpy")
        found = self._library.llama_get_logits_ith(self._context, index)
        logits = np.ctypeslib.as_array(found, shape=(self._setup.model.config.vocab_size,))
        if self._setup.forced:
            logits[self._ends] = -np.inf
        return int(logits.argmax())


def _fed(tokens: Sequence[int], start: int, row: int, asked: bool) -> list[Fed]:
    last = len(tokens) - 1
    return [(t, start + i, row, asked and i == last) for i, t in enumerate(tokens)]


def write_gguf(model: Any, target: Path, precision: str) -> None:
    """Write a Llama as a GGUF file without vocabulary, its matrices as F32 or Q4_0.

    With Q4_0, the embedding, which is also the output layer, is stored in eight bits.
    """
    gguf: Any = import_module("gguf")
    kinds, config = gguf.GGMLQuantizationType, model.config
    writer = gguf.GGUFWriter(str(target), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(_head_width(config))
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")
    for name, weight in _gguf_weights(model):
        data = weight.detach().float().numpy()
        kind = kinds[precision] if data.ndim == 2 else kinds.F32
        if kind == kinds.Q4_0 and name in ("token_embd.weight", "output.weight"):
            kind = kinds.Q8_0
        data = data if kind == kinds.F32 else gguf.quants.quantize(data, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_weights(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield weights by GGUF name, reordered as llama.cpp applies RoPE to neighbouring channels."""
    config, body = model.config, model.model
    yield "token_embd.weight", body.embed_tokens.weight
    yield "output_norm.weight", body.norm.weight
    if not config.tie_word_embeddings:
        yield "output.weight", model.lm_head.weight
    for index, block in enumerate(body.layers):
        mixer, mlp = block.self_attn, block.mlp
        weights = {
            "attn_norm": block.input_layernorm.weight, "ffn_norm":
            block.post_attention_layernorm.weight, "attn_v": mixer.v_proj.weight,
            "attn_output": mixer.o_proj.weight, "ffn_gate": mlp.gate_proj.weight,
            "ffn_up": mlp.up_proj.weight, "ffn_down": mlp.down_proj.weight,
            "attn_q": _interleaved(mixer.q_proj.weight, config.num_attention_heads),
            "attn_k": _interleaved(mixer.k_proj.weight, config.num_key_value_heads),
        }  # fmt: skip
        yield from ((f"blk.{index}.{name}.weight", weight) for name, weight in weights.items())


def _interleaved(weight: Any, heads: int) -> Any:
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.transpose(1, 2).reshape(rows, columns).contiguous()


# OpenVINO GenAI: continuous batching with a prefix cache on x86; plain batches on other processors,
# for which it has no paged attention.


def _openvino(setup: Setup, folder: Path) -> Variants:
    ov: Any = import_module("openvino")
    able = ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    half = {"bfloat16": "bf16"} if "BF16" in able else {"float16": "f16"} if "FP16" in able else {}
    paged = platform.machine() in ("x86_64", "AMD64")
    work, kind = (_open_paged, "") if paged else (_open_plain, ", without prefix cache")
    hints = {"float32": "f32", **half}.items()
    return [(f"{k}{kind}", partial(work, setup, folder / "openvino", hint)) for k, hint in hints]


def _open_plain(setup: Setup, target: Path, hint: str) -> Any:
    genai: Any = import_module("openvino_genai")
    _export_openvino(setup, target)
    options = {"INFERENCE_NUM_THREADS": _threads(), "INFERENCE_PRECISION_HINT": hint}
    pipe = genai.LLMPipeline(str(target), "CPU", ATTENTION_BACKEND="SDPA", **options)
    return nullcontext(partial(_decode_plain, setup, pipe))


def _decode_plain(setup: Setup, pipe: Any, asks: Sequence[Ask], count: int) -> Answers:
    """Decode prompts of equal length together: a padded row would attend to nothing."""
    ov, genai, np = (import_module(name) for name in ("openvino", "openvino_genai", "numpy"))
    rows = [[*ask.prefix, *ask.tail] for ask in asks]
    answers: list[Any] = [None] * len(rows)
    for length in dict.fromkeys(map(len, rows)):
        some = [place for place, row in enumerate(rows) if len(row) == length]
        ids = np.array([rows[place] for place in some], np.int64)
        asked = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        done = pipe.generate(asked, _wish(setup, count))
        for place, tokens in zip(some, done.tokens, strict=True):
            answers[place] = cut(setup, tokens)
    return answers


def _open_paged(setup: Setup, target: Path, hint: str) -> Any:
    genai: Any = import_module("openvino_genai")
    sizes, config = setup.sizes, setup.model.config
    _export_openvino(setup, target)
    token = 8 * config.num_hidden_layers * config.num_key_value_heads * _head_width(config)
    plan = genai.SchedulerConfig()
    plan.cache_size = 1 + (2 * sizes.batch * (setup.longest + sizes.new_tokens) * token >> 30)
    plan.max_num_seqs, plan.max_num_batched_tokens = sizes.batch, AT_ONCE
    plan.enable_prefix_caching = True
    options = {"INFERENCE_NUM_THREADS": _threads(), "INFERENCE_PRECISION_HINT": hint}
    if hint == "f32":  # keys and values are kept in eight bits otherwise, which changes answers
        options["KV_CACHE_PRECISION"] = "f32"
    pipe = genai.ContinuousBatchingPipeline(str(target), plan, "CPU", options)
    return nullcontext(partial(_decode_paged, setup, pipe))


def _decode_paged(setup: Setup, pipe: Any, asks: Sequence[Ask], count: int) -> Answers:
    ov, np = import_module("openvino"), import_module("numpy")
    rows = [ov.Tensor(np.array([[*ask.prefix, *ask.tail]], np.int64)) for ask in asks]
    done = pipe.generate(rows, [_wish(setup, count)] * len(rows))
    return [cut(setup, found.m_generation_ids[0]) for found in done]


def _wish(setup: Setup, count: int) -> Any:
    """Return a configuration for greedy decoding of up to `count` tokens."""
    wish: Any = import_module("openvino_genai").GenerationConfig()
    wish.max_new_tokens, wish.do_sample, wish.apply_chat_template = count, False, False
    wish.stop_token_ids = set(_ends(setup))
    wish.set_eos_token_id(_ends(setup)[0])
    if setup.forced:
        wish.min_new_tokens = count
    return wish


class _Past:
    """The KV cache of a traced model: keys and values of each layer, new ones appended."""

    def __init__(self, kept: Sequence[Any]) -> None:
        self.kept = list(kept)

    def get_seq_length(self, *_: Any) -> int:
        """Return 0; the length is not used when positions are given."""
        return 0

    def update(self, keys: Any, values: Any, layer: int, *_: Any, **__: Any) -> list[Any]:
        """Append new keys and values to a layer, and return all of its keys and values."""
        torch: Any = import_module("torch")
        own = slice(2 * layer, 2 * layer + 2)
        pairs = zip(self.kept[own], (keys, values), strict=True)
        self.kept[own] = [torch.cat(pair, 2) for pair in pairs]
        return self.kept[own]


def _traceable(model: Any) -> Any:
    """Return a module with the inputs and outputs of an exported language model."""
    torch: Any = import_module("torch")

    class Traceable(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, attended: Any, positions: Any, beam: Any, *past: Any) -> Any:
            total, fresh = attended.shape[1], ids.shape[1]
            columns, rows = torch.arange(total), torch.arange(total - fresh, total)
            causal = columns.unsqueeze(0) <= rows.unsqueeze(1)
            mask = causal[None, None] & attended[:, None, None, :].bool()
            cache = _Past([kept.index_select(0, beam) for kept in past])
            found = self.model(
                input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache
            )
            return (found.logits, *cache.kept)

    return Traceable()


def _export_openvino(setup: Setup, folder: Path) -> None:
    """Write a Llama in float32, with its KV cache as states, and its tokenizer, unless it exists.

    Names and shapes are those of exported language models, by which the pipeline finds the
    attention and pages its cache.
    """
    if folder.is_dir():
        return
    torch, ov, passes = (import_module(name) for name in ("torch", "openvino", "openvino.passes"))
    tokenizers: Any = import_module("openvino_tokenizers")
    model, config = setup.model, setup.model.config
    heads, width = config.num_key_value_heads, _head_width(config)
    layers = [f"{i}.{kind}" for i in range(config.num_hidden_layers) for kind in ("key", "value")]
    past = [f"past_key_values.{name}" for name in layers]
    ones = torch.ones(2, 7, dtype=torch.long)
    cache = [torch.zeros(2, heads, 4, width)] * len(past)
    places, beam = torch.arange(4, 7).repeat(2, 1), torch.arange(2, dtype=torch.int32)
    with quiet(), torch.inference_mode():
        wide = model if model.dtype == torch.float32 else deepcopy(model).float()
        made: Any = ov.convert_model(
            _traceable(wide), example_input=(ones[:, :3], ones, places, beam, *cache)
        )
        parts = tokenizers.convert_tokenizer(setup.tokenizer, with_detokenizer=True)
    names = ["input_ids", "attention_mask", "position_ids", "beam_idx", *past]
    shapes = [[-1, -1]] * 3 + [[-1]] + [[-1, heads, -1, width]] * len(past)
    for port, name, shape in zip(made.inputs, names, shapes, strict=True):
        port.get_tensor().set_names({name})
        port.get_node().set_friendly_name(name)
        port.get_node().set_partial_shape(ov.PartialShape(shape))
    present = [f"present.{name}" for name in layers]
    for port, name in zip(made.outputs, ["logits", *present], strict=True):
        port.get_tensor().set_names({name})
    made.validate_nodes_and_infer_types()
    manager = passes.Manager()
    manager.register_pass(passes.MakeStateful(dict(zip(past, present, strict=True))))
    manager.run_passes(made)
    _begin_empty(made, heads, width)
    folder.mkdir(parents=True)
    ov.save_model(made, folder / "openvino_model.xml", compress_to_fp16=False)
    for part, name in zip(parts, ("tokenizer", "detokenizer"), strict=True):
        ov.save_model(part, folder / f"openvino_{name}.xml")
    config.save_pretrained(folder)


def _begin_empty(made: Any, heads: int, width: int) -> None:
    """Initialise every state with zero positions and one row per prompt."""
    ops, np = import_module("openvino.opset13"), import_module("numpy")
    whole = partial(ops.constant, dtype=np.int64)
    sizes = ops.shape_of(made.input("input_ids"), output_type="i64")
    rows = ops.gather(sizes, whole([0]), whole(0))
    shape = ops.concat([rows, whole([heads]), whole([0]), whole([width])], 0)
    empty = ops.broadcast(ops.constant(0.0, dtype=np.float32), shape)
    for node in made.get_ops():
        if node.get_type_name() == "ReadValue":
            node.set_arguments([empty.output(0)])
    made.validate_nodes_and_infer_types()


LIBRARIES: dict[str, tuple[tuple[str, ...], Callable[[Setup, Path], Variants]]] = {
    "openvino": (("openvino", "openvino_genai", "openvino_tokenizers"), _openvino),
    "ctranslate2": (("ctranslate2",), _ctranslate2),
    "llama.cpp": (("llama_cpp", "gguf"), _llama),
}
"""By library: the modules it needs, named without importing them, and its configurations."""
