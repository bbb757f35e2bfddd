"""How many decisions per second does the engine make, next to transformers' `generate`?

    waggle bench engine --model smollm2 --batch 64 --fastest

All contenders decode the same prompts with the same weights and dtype in one run. `generate` is
measured in the configurations it offers for the device, other libraries (`benchmarks.rivals`) on
request, and the engine in three modes: free without drafts, free and constrained. The engine gets
all batches as one queue, the others get them one after the other. The engine's time includes making
grammars. On a shared machine, several rounds are measured and the fastest of each row counts.

Prefill is the number of prompt tokens, shared prefixes included, per second of processing them;
caching the shared prefix makes it faster. Decode is answer tokens per second of all other time,
host work included. For the engine, both come from one more batch in which every pass is waited for.
For the others, a batch with one new token is prefill, and the extra time of longer answers is
decode.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks import rivals as libraries
from benchmarks.workload import Answers, Ask, Contender, Decode, Setup, Sizes, accepts, cut, prepare
from waggle.core.errors import ConfigError
from waggle.engine.engine import Engine
from waggle.engine.request import Completion, Prompt
from waggle.models.load import freeze_loaded

Say = Callable[[str], None]


@dataclass(slots=True)
class Row:
    """The measurements of one contender, or of the engine in one mode."""

    title: str
    seconds: float
    decisions_per_s: float
    tokens: float
    """Mean length of an answer."""
    prefill: float
    """Prompt tokens per second."""
    decode: float
    """Answer tokens per second."""
    speedup: float = 0.0
    """Relative to the fastest `generate`."""
    steps: float = 0.0
    """Model passes per decision of the engine."""
    note: str = ""
    answers: Answers = field(default_factory=list, repr=False)


class Report(NamedTuple):
    """The measurements, and the setup they were made with."""

    about: dict[str, Any]
    """Model, device, dtype, threads, sizes, rounds and how the engine computes."""
    rows: list[Row]
    missing: dict[str, str]
    """Requested libraries that could not be measured, with the reason for each."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without the answers."""
        rows = [{k: v for k, v in asdict(row).items() if k != "answers"} for row in self.rows]
        return {**self.about, "rows": rows, "missing": self.missing}

    def lines(self) -> list[str]:
        """Return the report as text."""
        out = [", ".join(f"{name} {value}" for name, value in self.about.items())]
        out.append(f"{'':40s} decisions/s  generate  tokens  prefill/s  decode/s  steps")
        out += [
            f"{row.title:40s} {row.decisions_per_s:11.2f} {row.speedup:8.2f}x {row.tokens:7.1f} "
            f"{row.prefill:10.0f} {row.decode:9.0f} {row.steps:6.1f}  {row.note}".rstrip()
            for row in self.rows
        ]
        return out + [f"{name}: {why}" for name, why in self.missing.items()]


def bench(
    model: str = "smollm2-135m-instruct", sizes: Sizes | None = None, device: str = "auto",
    dtype: str = "auto", *, views: bool = False, fastest: bool = False, rivals: str = "",
    rounds: int = 1, say: Say = lambda _: None,
) -> Report:  # fmt: skip
    """Measure `generate`, the engine, and other libraries by name (comma-separated, or `all`).

    Raises:
        ConfigError: for sizes below 1, unknown libraries, and models that these cannot decode.
    """
    if rounds < 1:
        raise ConfigError("rounds must be at least 1")
    names = libraries.chosen(rivals)
    setup = prepare(model, sizes or Sizes(), device, dtype, views=views)
    if names:
        libraries.require(setup)
    with TemporaryDirectory(prefix="waggle-rivals-") as folder:
        others, missing = libraries.contenders(names, setup, Path(folder), fastest)
        found = compare(setup, others, rounds=rounds, fastest=fastest, say=say)
    return found._replace(missing=missing)


def compare(
    setup: Setup, others: Sequence[Contender] = (), *, rounds: int = 1, fastest: bool = False,
    say: Say = lambda _: None,
) -> Report:  # fmt: skip
    """Measure `generate`, the engine and the other libraries once per round."""
    baselines = generate_variants(setup)[-1 if fastest else 0 :]
    engine = Engine(setup.model, setup.tokenizer, max_rows=setup.sizes.batch)
    for mode in MODES:
        mode.decode(engine, setup, setup.warm)
    freeze_loaded()  # as laws do
    ways: dict[str, Callable[[], Row]] = {
        **{each.title: partial(measure, setup, each) for each in baselines},
        **{mode.name: partial(measure_engine, setup, engine, mode) for mode in MODES},
        **{each.title: partial(measure, setup, each) for each in others},
    }
    found: dict[str, Row] = {}
    for _ in range(rounds):
        for title, work in ways.items():
            try:
                row = work()
            except Exception as error:  # a failure costs only its own row
                say(f"{title}: failed ({type(error).__name__}: {str(error)[:300]})")
                continue
            say(f"{title}: {row.decisions_per_s:.2f} decisions/s")
            found[title] = _better(found.get(title, row), row)
    known = [found[each.title] for each in baselines if each.title in found]
    if not known:
        raise ConfigError("`generate` cannot decode this here; lower --batch, or use another model")
    reference = min(known, key=lambda row: row.seconds)
    rows = [_against(found[title], reference) for title in ways if title in found]
    return Report(
        {**_about(setup), "rounds": rounds, "engine": engine.backend.describe()}, rows, {}
    )


def _better(before: Row, row: Row) -> Row:
    """Return the faster of two rounds; prefill and decode rates are the best of both rounds."""
    prefill, decode = max(before.prefill, row.prefill), max(before.decode, row.decode)
    return replace(min(before, row, key=lambda r: r.seconds), prefill=prefill, decode=decode)


def _against(row: Row, reference: Row) -> Row:
    """Add the speed-up over the fastest `generate` and how many answers equal its answers."""
    if not row.title.startswith(("generate", "constrained")):
        equal = sum(a == b for a, b in zip(row.answers, reference.answers, strict=True))
        row.note += f"{'; ' * bool(row.note)}equals generate in {equal} of {len(row.answers)}"
    return replace(row, speedup=reference.seconds / row.seconds)


def _about(setup: Setup) -> dict[str, Any]:
    torch: Any = import_module("torch")
    cuda = setup.device.startswith("cuda")
    return {
        "model": setup.name,
        "device": torch.cuda.get_device_name() if cuda else setup.device,
        "dtype": str(setup.model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "batch": setup.sizes.batch,
        "repeats": setup.sizes.repeats,
        "prompt tokens": round(_prompt_tokens(setup.work) / len(setup.work)),
        "new tokens": f"{'' if setup.forced else 'at most '}{setup.sizes.new_tokens}",
    }


# Contenders: `generate` and other libraries.


def measure(setup: Setup, contender: Contender) -> Row:
    """Measure one batch with one new token, then all batches with full-length answers."""
    size, count = setup.sizes.batch, setup.sizes.new_tokens
    batches = [setup.work[i : i + size] for i in range(0, len(setup.work), size)]
    with contender.open() as decode:
        _warm_up(setup, decode)
        reading, _ = _timed(setup, partial(decode, setup.fresh, 1))
        seconds, answers = _timed(setup, lambda: [a for b in batches for a in decode(b, count)])
    prompt, fresh = _prompt_tokens(setup.work), _prompt_tokens(setup.fresh)
    answered = sum(map(len, answers))
    return Row(
        contender.title, seconds, len(answers) / seconds, answered / len(answers),
        fresh / reading, _over(answered, seconds - reading * prompt / fresh), answers=answers,
    )  # fmt: skip


def _warm_up(setup: Setup, decode: Decode) -> None:
    """Decode other prompts: on a CPU one per shared prefix, else one batch per answer length."""
    if setup.device == "cpu":
        heads = {ask.prefix: ask for ask in setup.warm}
        decode(list(heads.values()), min(4, setup.sizes.new_tokens))
        return
    for count in (1, setup.sizes.new_tokens):  # code is compiled for these lengths
        decode(setup.warm[: setup.sizes.batch], count)


def generate_variants(setup: Setup) -> list[Contender]:
    """Return the configurations of `generate` for a device, the fastest last."""
    options: dict[str, dict[str, Any]] = {"dynamic cache": {}}
    if setup.device.startswith("cuda"):
        options["static cache, compiled"] = {"cache_implementation": "static"}

    @contextmanager
    def opened(chosen: dict[str, Any]) -> Iterator[Decode]:
        yield partial(generate, setup, chosen)

    return [Contender(f"generate, {how}", partial(opened, o)) for how, o in options.items()]


def generate(setup: Setup, options: dict[str, Any], asks: Sequence[Ask], count: int) -> Answers:
    """Decode one batch greedily with transformers, left-padded to the longest prompt."""
    torch: Any = import_module("torch")
    rows, longest = [[*ask.prefix, *ask.tail] for ask in asks], setup.longest
    pad = setup.tokenizer.pad_token_id or 0
    ids = torch.tensor([[pad] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    length = {"min_new_tokens": count} if setup.forced else {}
    with torch.inference_mode():
        found = setup.model.generate(
            ids.to(setup.device), attention_mask=mask.to(setup.device), max_new_tokens=count,
            do_sample=False, **length, **options,
        )  # fmt: skip
    return [cut(setup, row) for row in found[:, longest:].tolist()]


# The engine.


class Mode(NamedTuple):
    """A decoding mode of the engine."""

    name: str
    constrained: bool
    speculate: bool

    def decode(self, engine: Engine, setup: Setup, asks: Sequence[Ask]) -> list[Completion]:
        """Decode prompts in this mode."""
        engine.speculate = self.speculate
        prompts = []
        for ask in asks:
            if self.constrained:
                matcher = engine.matcher(ask.grammar)
                prompt = Prompt(ask.tail, ask.prefix, matcher, max_new_tokens=ask.longest())
            else:
                prompt = Prompt(
                    ask.tail, ask.prefix, max_new_tokens=setup.sizes.new_tokens,
                    ignore_end=setup.forced,
                )  # fmt: skip
            prompts.append(prompt)
        return engine.generate(prompts)


MODES = (
    Mode("free, no drafts", constrained=False, speculate=False),
    Mode("free", constrained=False, speculate=True),
    Mode("constrained", constrained=True, speculate=True),
)


class Watched:
    """A backend that forwards calls, waits for each pass, and sums the time of prompt passes."""

    def __init__(self, backend: Any, wait: Callable[[], None]) -> None:
        self.backend, self._wait = backend, wait
        self.prompt_seconds = 0.0
        self.prompt_tokens = 0
        """Tokens in passes with prompts, including tokens drafted after the prompts."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    def run(self, rows: Any) -> Any:
        """Run a pass, and time it if it contains a prompt."""
        start = time.perf_counter()
        found = self.backend.run(rows)
        self._wait()
        if any(row.start == 0 for row in rows):
            self.prompt_seconds += time.perf_counter() - start
            self.prompt_tokens += sum(len(row.tokens) for row in rows)
        return found


def measure_engine(setup: Setup, engine: Engine, mode: Mode) -> Row:
    """Decode all batches in one mode, then one more to separate prefill from decode."""
    engine.reset()  # forget the answers of other modes to the same prompts
    mode.decode(engine, setup, setup.warm)
    seconds, done = _timed(setup, partial(mode.decode, engine, setup, setup.work))
    prefill, decode = _engine_rates(setup, engine, mode)
    drafted = sum(d.usage.drafted_tokens for d in done)
    accepted = sum(d.usage.accepted_tokens for d in done)
    note = f"{accepted} of {drafted} drafted tokens accepted" if mode.speculate else ""
    if mode.constrained:
        pairs = zip(setup.work, done, strict=True)
        valid = sum(accepts(ask.grammar(None), d.text) for ask, d in pairs)
        note += f"; {valid} of {len(done)} answers in the grammar"
    steps = sum(d.usage.model_steps for d in done) / len(done)
    answers = [d.tokens for d in done]
    tokens = sum(map(len, answers)) / len(done)
    return Row(
        mode.name, seconds, len(done) / seconds, tokens, prefill, decode, steps=steps, note=note,
        answers=answers,
    )  # fmt: skip


def _engine_rates(setup: Setup, engine: Engine, mode: Mode) -> tuple[float, float]:
    """Return prefill and decode rates of one more batch; drafts after prompts count as decode."""
    backend = engine.backend
    watched: Any = Watched(backend, setup.wait)
    engine.backend = watched
    try:
        seconds, done = _timed(setup, partial(mode.decode, engine, setup, setup.fresh))
    finally:
        engine.backend = backend
    prompt = _prompt_tokens(setup.fresh)
    computed = prompt - sum(d.usage.cached_tokens for d in done)
    reading = watched.prompt_seconds * min(1.0, computed / max(1, watched.prompt_tokens))
    answered = sum(len(d.tokens) for d in done)
    return _over(prompt, reading), _over(answered, seconds - reading)


def _timed(setup: Setup, work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the wall time of a callable, and its result."""
    setup.wait()
    start = time.perf_counter()
    result = work()
    setup.wait()
    return time.perf_counter() - start, result


def _prompt_tokens(asks: Sequence[Ask]) -> int:
    return sum(len(ask.prefix) + len(ask.tail) for ask in asks)


def _over(amount: float, by: float) -> float:
    return amount / by if by > 0 else 0.0
