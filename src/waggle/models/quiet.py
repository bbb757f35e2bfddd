"""Silence for the libraries that load and write weights: no bars and no warnings of theirs.

What a user is told comes from here; a bar of a library in between would tear it apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back progress bars and warnings of transformers, and let them be as they were after."""
    logging: Any = import_module("transformers.utils.logging")
    shown, level = bool(logging.is_progress_bar_enabled()), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    reader = _gguf_reader()
    bar = getattr(reader, "tqdm", None)
    if bar is not None:
        reader.tqdm = _no_bar
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if bar is not None:
            reader.tqdm = bar
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def _gguf_reader() -> Any:
    """Return the module that reads GGUF files, which draws a bar of its own."""
    try:
        return import_module("transformers.modeling_gguf_pytorch_utils")
    except ImportError:
        return None


def _no_bar(items: Iterable[Any], *_: Any, **__: Any) -> Iterable[Any]:
    return items
