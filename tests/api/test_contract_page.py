"""The page on views and decisions is what its tool writes, and names every field and code."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from waggle.core.admit import CODES
from waggle.core.schema import Decision, Private, Trace, View

ROOT = Path(__file__).parent.parent.parent
TOOL = ROOT / "docs" / "tools" / "contract.py"
PAGE = ROOT / "docs" / "views-and-decisions.md"


def test_the_page_is_what_the_code_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    page = runpy.run_path(str(TOOL))["page"]
    assert text == page(), "run `python docs/tools/contract.py docs/views-and-decisions.md`"
    for code, rule in CODES.items():
        assert f"| `{code}` | {rule} |" in text
    for struct in (View, Private, Trace, Decision):
        assert [f for f in struct.__struct_fields__ if f"| `{f}` |" not in text] == []


def test_a_field_without_a_meaning_is_found() -> None:
    tool = runpy.run_path(str(TOOL))
    del tool["MEANINGS"]["Trace.ttl"]
    with pytest.raises(SystemExit, match=r"Trace\.ttl needs one meaning"):
        tool["page"]()
