"""Spell out what the option parser would misread: `--agentsnet.priority off`.

A dotted yes/no option is a flag to the parser, so a word behind it would be taken for another
argument. Only words behind options that really are yes/no options are touched.
"""

from __future__ import annotations

from collections.abc import Sequence

from waggle.cli.options import switches

_WORDS = {
    "on": "true", "yes": "true", "true": "true",
    "off": "false", "no": "false", "false": "false",
}  # fmt: skip


def spell_out(tokens: Sequence[str]) -> list[str]:
    """Return the tokens with `--x.flag off` and `--x.flag=off` written `--x.flag=false`."""
    if not any(t.startswith("--") and "." in t for t in tokens):
        return list(tokens)
    flags = switches(tokens)
    spelled: list[str] = []
    rest = list(tokens)
    while rest:
        token = rest.pop(0)
        name, equals, value = token.partition("=")
        word = value if equals else (rest[0] if rest else "")
        if name.replace("_", "-") in flags and word.lower() in _WORDS:
            spelled.append(f"{name}={_WORDS[word.lower()]}")
            if not equals:
                rest.pop(0)
        else:
            spelled.append(token)
    return spelled
