"""A law that runs a language model in this process: zero-shot or adapted, free or constrained.

The backbone reads the anonymous prompt of its view and answers with one record (paper section
"Controller"). All nodes of a round form one batch of the decoding engine. Only the weights, the KV
cache of shared prefixes and recent answers, used as drafts, are kept between calls. Invariant: the
same view gets the same answer, whatever else is in its batch; with a temperature above 0, the same
view with the same entropy does.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from waggle import shipped
from waggle.core.errors import ConfigError
from waggle.core.grammar import longest
from waggle.core.protocols import Decode, Request, Usage
from waggle.core.seeds import derive
from waggle.laws.digest import Seen, digest, look
from waggle.laws.origin import UNNAMED, backbone_of, origin

if TYPE_CHECKING:
    from waggle.engine.engine import Engine
    from waggle.engine.request import Completion, Prompt, Sampling
    from waggle.laws.dialogue import Dialogue

DEFAULT = "smollm2-135m-instruct"
"""The pretrained backbone that installs from the package index."""
MODES = ("free", "constrained")
ROWS = {"cpu": 64, "cuda": 512}
"""Largest batch by device type; a GPU runs a step of many rows in the time of a single row."""
MAX_RECORD_TOKENS = 1024
"""Longest constrained answer; the grammar of every view is far shorter."""


class Sample(NamedTuple):
    """A decision with its tokens and log-probabilities, for training."""

    prompt_tokens: tuple[int, ...]
    completion: Completion
    """The output tokens, and the log-probabilities of the sampled ones."""
    decode: Decode


class LocalLaw:
    """A law that decides with a causal language model.

    Args:
        model: name from `waggle models list`, Hugging Face id, or folder. Default: the backbone
            that the adapter names, else the pretrained default.
        mode: `free` decodes greedily (used for the reported numbers); `constrained` generates only
            records that are admissible in the view.
        adapter: folder of a PEFT adapter.
        merge: merge the adapter into the weights; off keeps it separate, which is slower.
        device: `auto`, `cpu` or `cuda`.
        dtype: `auto`, `float32`, `bfloat16` or `int8`; `int8` rounds the weights, is 1.1 to 1.5
            times as fast on a CPU, and can change answers.
        max_new_tokens: maximum length of a free answer in tokens.
        max_rows: maximum batch size; further nodes wait. Default: 64 on a CPU, 512 on a GPU.
        speculate: verify drafts from earlier answers; never changes an answer.
        temperature: sampling temperature; 0 decodes greedily, above 0 every request is sampled with
            its own entropy.
    """

    batched = True
    """Many episodes are played side by side."""

    def __init__(
        self,
        model: str | None = None,
        mode: Literal["free", "constrained"] = "free",
        adapter: str | None = None,
        merge: bool = True,
        device: str = "auto",
        dtype: str = "auto",
        max_new_tokens: int = 256,
        max_rows: int | None = None,
        speculate: bool = True,
        temperature: float = 0.0,
    ) -> None:
        if mode not in MODES:
            raise ConfigError(f"mode {mode!r} is unknown; use free or constrained")
        if temperature and not 1e-3 <= temperature <= 1e3:
            raise ConfigError("temperature must be 0 (greedy), or from 0.001 to 1000")
        if not 1 <= max_new_tokens <= 4096 or not (max_rows is None or 1 <= max_rows <= 4096):
            raise ConfigError("max_new_tokens and max_rows must be from 1 to 4096")
        self.name = "local"
        self.mode = mode
        self.max_new_tokens = max_new_tokens
        self.temperature = temperature
        if adapter is None and model in shipped.names():
            raise ConfigError(f"model {model!r} is a law of its own; use --law {model}")
        if model is None:
            model = DEFAULT if adapter is None else backbone_of(adapter, DEFAULT)
        said = origin(adapter or model)
        self.order, self.teacher = said.order, said.teacher
        own = adapter is not None or said.backbone == UNNAMED
        self.backbone = model if own else said.backbone
        self._weights = (model, device, dtype, adapter, merge)
        self._max_rows, self._speculate = max_rows, speculate
        self._lock = threading.Lock()
        self._loaded: tuple[Engine, Dialogue] | None = None
        self._seen: Seen = ()

    @classmethod
    def over(cls, model: Any, tokenizer: Any, **options: Any) -> LocalLaw:
        """Return a law that uses a model already in memory."""
        law = cls(**options)
        law._loaded = law._open(model, tokenizer)
        return law

    def _open(self, model: Any, tokenizer: Any) -> tuple[Engine, Dialogue]:
        from waggle.engine.engine import Engine
        from waggle.laws.dialogue import Dialogue

        rows = self._max_rows or ROWS[model.device.type]
        int8 = self._weights[2] == "int8"
        engine = Engine(model, tokenizer, max_rows=rows, speculate=self._speculate, int8=int8)
        return engine, Dialogue(tokenizer)

    @property
    def weights(self) -> tuple[str, str | None]:
        """The model, by name or folder, and the folder of its adapter, if any."""
        model, _, _, adapter, _ = self._weights
        return model, adapter

    @property
    def digest(self) -> str:
        """The digest of the weights as they were loaded; empty if they cannot be identified."""
        return digest(self._look() if self._loaded is None else self._seen)

    def _look(self) -> Seen:
        model, _, _, adapter, _ = self._weights
        return look(model, adapter)

    def load(self) -> None:
        """Load the weights now instead of at the first decision."""
        self._ready()

    def _ready(self) -> tuple[Engine, Dialogue]:
        """Load the weights at the first call, so that creating a law is cheap."""
        with self._lock:
            if self._loaded is None:
                from waggle.engine.model.config import supports
                from waggle.models import load

                name, device, dtype, adapter, merge = self._weights
                self._seen = self._look()
                found = load.load_to_decode(name, supports, device, dtype, adapter, merge)
                self._loaded = self._open(*found)
                load.freeze_loaded()
            return self._loaded

    def decide(self, requests: Sequence[Request]) -> list[Decode]:
        """Decide for every request of one round, in one batch; equal prompts are decoded once.

        With a temperature above 0, equal prompts with different entropy are decoded separately.
        """
        return [
            _decode(completion, repeated) for _, completion, repeated in self._answered(requests)
        ]

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Decide as `decide` does, and also return the prompt tokens and the completion."""
        return [
            Sample((*prompt.prefix, *prompt.tail), completion, _decode(completion, repeated))
            for prompt, completion, repeated in self._answered(requests)
        ]

    def refresh(self, model: Any) -> None:
        """Switch to the current weights of a model (see `Engine.refresh`)."""
        self._ready()[0].refresh(model)

    def _answered(self, requests: Sequence[Request]) -> list[tuple[Prompt, Completion, bool]]:
        """Return each request's prompt and answer, and whether an earlier one had that prompt."""
        if not requests:
            return []
        engine, dialogue = self._ready()
        asked: dict[tuple[tuple[int, ...], tuple[int, ...], Sampling | None], int] = {}
        prompts: list[Prompt] = []
        places: list[int] = []
        for request, (shared, own) in zip(requests, dialogue.tokens(requests), strict=True):
            sampling = self._sampling(request)
            place = asked.setdefault((shared, tuple(own), sampling), len(prompts))
            if place == len(prompts):
                prompts.append(self._prompt(engine, request, shared, own, sampling))
            places.append(place)
        done = engine.generate(prompts)
        first = {place: index for index, place in reversed(list(enumerate(places)))}
        return [
            (prompts[place], done[place], first[place] != index)
            for index, place in enumerate(places)
        ]

    def _sampling(self, request: Request) -> Sampling | None:
        """Return the sampling of a request, None for greedy; a second attempt has a new seed."""
        if not self.temperature:
            return None
        from waggle.engine.request import Sampling

        key = derive(request.entropy, "sampling", *request.feedback) >> 1
        return Sampling(self.temperature, key)

    def _prompt(
        self,
        engine: Engine,
        request: Request,
        shared: tuple[int, ...],
        own: list[int],
        sampling: Sampling | None,
    ) -> Prompt:
        from waggle.engine.request import Prompt

        if self.mode == "free":
            return Prompt(own, shared, max_new_tokens=self.max_new_tokens, sampling=sampling)
        from waggle.laws.spelling import view_grammar

        matcher = engine.matcher(partial(view_grammar, request.view))
        room = min(longest(request.view), MAX_RECORD_TOKENS)
        return Prompt(own, shared, matcher, max_new_tokens=room, sampling=sampling)


def zero_shot(
    model: str = DEFAULT,
    device: str = "auto",
    dtype: str = "auto",
    max_rows: int | None = None,
    max_new_tokens: int = 256,
) -> LocalLaw:
    """Return the backbone without fine-tuning, decoding freely up to `max_new_tokens`.

    Without training, its output is mostly nonsense.
    """
    law = LocalLaw(
        model, device=device, dtype=dtype, max_rows=max_rows, max_new_tokens=max_new_tokens
    )
    return _named("zero-shot", law)


def zero_shot_constrained(
    model: str = DEFAULT, device: str = "auto", dtype: str = "auto", max_rows: int | None = None
) -> LocalLaw:
    """Return the backbone without fine-tuning, generating only admissible records."""
    law = LocalLaw(model, mode="constrained", device=device, dtype=dtype, max_rows=max_rows)
    return _named("zero-shot-constrained", law)


def adapted(
    adapter: str,
    model: str | None = None,
    mode: Literal["free", "constrained"] = "free",
    device: str = "auto",
    dtype: str = "auto",
    max_rows: int | None = None,
) -> LocalLaw:
    """Return the law of a PEFT adapter, merged into `model` or else the backbone that it names."""
    law = LocalLaw(model, mode, adapter, device=device, dtype=dtype, max_rows=max_rows)
    return _named("adapted", law)


def _named(name: str, law: LocalLaw) -> LocalLaw:
    law.name = name
    return law


def _decode(done: Completion, repeated: bool) -> Decode:
    """Return an answer with its usage; a repeat of another node's answer took no model step."""
    usage = done.usage
    cost = Usage(
        calls=1,
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        model_steps=0 if repeated else usage.model_steps,
    )
    return Decode(done.text, cost)
