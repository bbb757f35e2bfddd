"""A trial of foreign files in a process with limited time and memory, where they can do no harm.

A tokenizer and a chat template are programs: a vocabulary may need gigabytes, a regular expression
may backtrack for ever, a template may loop. `waggle.models.vet` runs this file as a separate
process before any file of a folder is opened. Standard input describes what to try; the output is
one line with the problem, or empty if all went well. Nothing of Waggle is imported here, so that
the process starts in a tenth of a second.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

MAX_ID = 1 << 22
"""Maximum size of a vocabulary: sixteen times the largest in use."""
GROWTH = 1 << 16
"""Characters that a template may write in addition to eight times its input."""
_GENERATION = re.compile(r"\{%-?\s*(end)?generation\s*-?%\}")


def compiled(template: str) -> Any:
    """Compile a chat template in a sandbox, with the helpers that templates use."""
    from jinja2.exceptions import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    space = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    space.filters["tojson"] = lambda value, **options: json.dumps(
        value, ensure_ascii=False, indent=options.get("indent")
    )
    space.globals["raise_exception"] = refuse
    return space.from_string(template)


def try_folder(wanted: dict[str, Any]) -> None:
    """Open the tokenizer, render and encode chats, and match the patterns of an adapter.

    Raises:
        Exception: of any kind, if a part of the folder cannot be used.
    """
    folder = Path(wanted["folder"])
    chats = wanted["chats"]
    texts = [turn["content"] for chat in chats for turn in chat]
    settings = _read(folder / "tokenizer_config.json")
    template = _template(folder, settings)
    if template is not None:
        special = {
            name: value["content"] if isinstance(value, dict) else value
            for name, value in settings.items()
            if name.endswith("_token")
        }
        texts += [_render(template, chat, special) for chat in chats]
    if (folder / "tokenizer.json").is_file():
        _encode(folder / "tokenizer.json", texts)
    names = _weight_names(folder) if wanted["patterns"] else []
    for pattern in wanted["patterns"]:
        for name in names:
            re.fullmatch(pattern, name)


def _read(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _template(folder: Path, settings: dict[str, Any]) -> Any:
    """Return the chat template of a folder, or None."""
    text = settings.get("chat_template")
    own = folder / "chat_template.jinja"
    if own.is_file():
        text = own.read_text(encoding="utf-8")
    if isinstance(text, list):
        text = {entry["name"]: entry["template"] for entry in text}.get("default")
    if not text:
        return None
    template = compiled(_GENERATION.sub("", text))
    template.globals["strftime_now"] = lambda _: "18 Nov 2026"
    return template


def _render(template: Any, chat: list[dict[str, str]], special: dict[str, Any]) -> str:
    """Render a chat; for a template without a system turn, prepend that to the first user turn."""
    first = {"role": "user", "content": f"{chat[0]['content']}\n{chat[1]['content']}"}
    options = {"tools": None, "documents": None, "add_generation_prompt": True, **special}
    most = GROWTH + 8 * sum(len(turn["content"]) for turn in chat)
    try:
        text: str = template.render(messages=chat, **options)
    except Exception:
        text = template.render(messages=[first, *chat[2:]], **options)
    if len(text) > most:
        raise ValueError(f"the chat template writes {len(text):,} characters, more than {most:,}")
    return text


def _encode(path: Path, texts: list[str]) -> None:
    from tokenizers import Tokenizer

    whole = _read(path)
    vocabulary = (whole.get("model") or {}).get("vocab") or {}
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else [len(vocabulary)]
    ids += [token.get("id") for token in whole.get("added_tokens") or []]
    for token in ids:
        if not isinstance(token, int) or not 0 <= token < MAX_ID:
            raise ValueError(f"the vocabulary has a token number {token!r}")
    del whole, vocabulary, ids
    Tokenizer.from_file(str(path)).encode_batch(texts)


def _weight_names(folder: Path) -> list[str]:
    """Return the names of matrices, from the headers of the safetensors files."""
    found: list[str] = []
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            found += (name.removesuffix(".weight") for name in header)
    return found


def _bound(seconds: int, memory: int) -> None:
    """Limit CPU time and memory, if the system supports it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Run the trial that standard input describes; print the problem, if any, in one line."""
    wanted = json.load(sys.stdin)
    _bound(wanted["seconds"], wanted["memory"])
    try:
        try_folder(wanted)
    except MemoryError:
        sys.stdout.write("it takes more memory than it is given")
    except BaseException as error:  # panics of libraries may not be an `Exception`
        sys.stdout.write(" ".join(f"{type(error).__name__}: {error}".split())[:200])
    sys.stdout.flush()


if __name__ == "__main__":
    main()
