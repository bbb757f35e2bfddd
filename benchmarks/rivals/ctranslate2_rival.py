"""CTranslate2: weights in float32 or int8, the shared beginning read once where there is one.

The library keeps the state of one `static_prompt`; prompts with several beginnings are decoded
without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.rivals.job import Answers, Decode, Job, Rival, Variant
from benchmarks.setup import Ask
from waggle.models.quiet import quiet

PRECISIONS = ("float32", "int8")


def variants(job: Job) -> list[Variant]:
    """Return the configurations, the one known as the fastest last."""
    found = [
        Variant(kind, "batch", False, partial(_opened, job, kind, False)) for kind in PRECISIONS
    ]
    if len(job.prefixes) == 1:
        how = "static prompt kept"
        found += [Variant(k, how, True, partial(_opened, job, k, True)) for k in PRECISIONS]
    return found


RIVAL = Rival("ctranslate2", ("ctranslate2",), variants)


@contextmanager
def _opened(job: Job, precision: str, shares: bool) -> Iterator[Decode]:
    library: Any = import_module("ctranslate2")
    generator = library.Generator(
        str(_converted(job)),
        device="cpu",
        compute_type=precision,
        inter_threads=1,
        intra_threads=job.threads,
    )
    yield partial(_decode, job, generator, shares)
    generator.unload_model()


def _converted(job: Job) -> Path:
    """Return the folder of the converted weights, made once; quantized when they are loaded."""
    target = job.folder / "ctranslate2"
    if target.is_dir():
        return target
    converters: Any = import_module("ctranslate2.converters")
    source = job.folder / "transformers"
    with quiet():
        job.model.save_pretrained(source)
        job.tokenizer.save_pretrained(source)
        converters.TransformersConverter(str(source)).convert(str(target), quantization="float32")
    return target


def _decode(job: Job, generator: Any, shares: bool, asks: Sequence[Ask], count: int) -> Answers:
    spell = job.tokenizer.convert_ids_to_tokens
    options: dict[str, Any] = {"min_length": count} if job.forced else {}
    if shares:
        options |= {"static_prompt": spell(list(job.prefixes[0])), "cache_static_prompt": True}
    rows = [ask.tail if shares else (*ask.prefix, *ask.tail) for ask in asks]
    done = generator.generate_batch(
        [spell(list(row)) for row in rows],
        max_length=count,
        sampling_topk=1,
        end_token=sorted(job.ends),
        include_prompt_in_result=False,
        **options,
    )
    return [job.cut(found.sequences_ids[0]) for found in done]
