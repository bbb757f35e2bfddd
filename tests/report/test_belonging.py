"""Rows of a law that ships: a report says which are not known to be of the weights that ship."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.report.test_weighed import by, silo
from waggle import shipped
from waggle.evaluate.rows import FILE
from waggle.laws.digest import of_manifest
from waggle.plugins import get_law
from waggle.report import page
from waggle.report.belonging import counted, doubts, foreign

NOW = of_manifest(shipped.manifest(shipped.folder("nano"))) if shipped.present("nano") else ""
needed = pytest.mark.skipif(not NOW, reason="the weights of nano are not here")


@pytest.mark.parametrize("name", ("nano", "smollm2"))
def test_a_manifest_has_the_digest_of_its_law(name: str) -> None:
    if not shipped.present(name):
        pytest.skip(f"the weights of {name} are not here")
    found = shipped.manifest(shipped.folder(name))
    assert of_manifest(found) == get_law(name).digest  # type: ignore[attr-defined]
    assert of_manifest(msgspec.structs.replace(found, files={})) == ""


@needed
@pytest.mark.parametrize(
    ("digests", "said"),
    [
        ((NOW,), ""),
        (("aaaa",), "Ours 12 of 12 episodes by other weights (aaaa)"),
        (("aaaa", NOW, NOW), "Ours 4 of 12 episodes by other weights (aaaa)"),
        (("",), "Ours 12 of 12 episodes by weights that their rows do not name"),
        (("aaaa", "", NOW), "Ours 4 of 12 episodes by other weights (aaaa) and 4 of 12 episodes by "
                            "weights that their rows do not name"),
    ],
)  # fmt: skip
def test_one_line_says_what_may_be_of_another_law(
    tmp_path: Path, digests: tuple[str, ...], said: str
) -> None:
    recipe, rows = silo()
    made = by(rows, "learned", *digests)
    line = f"not known to be of the laws that ship: {said} (nano has {NOW} here)"
    assert foreign(made, recipe) == ([line] if said else [])
    (tmp_path / FILE).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in made))
    text = page.write(recipe, tmp_path).markdown.read_text()
    assert (f"- {line}\n" in text) == bool(said)


def test_nothing_is_said_of_rules_or_where_no_weights_are(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, rows = silo()
    made = by(by(rows, "learned", "aaaa"), "quiet", "bbbb")
    assert counted(made, recipe) == {"learned": {"aaaa": 12}}
    monkeypatch.setattr(shipped, "ROOT", Path("nowhere"))
    assert foreign(made, recipe) == [] and doubts({"aaaa": 3, "": 4}, "") == ""
