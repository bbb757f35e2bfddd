"""The page of a report in a real browser: sorting, the fixed column, episodes, width, markup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.report import sheets
from waggle.evaluate.rows import Row
from waggle.report import page
from waggle.report.tables import Group, Table
from waggle.report.web.episodes import episodes
from waggle.view.chromium import PROGRAM, Chromium

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no chromium on this machine")
MARKUP = "<img src=x onerror='window.broken=1'><script>window.broken=1</script>&amp;</script>"
FIRST = "document.querySelector('#table-0 table')"


def marked_up(row: Row) -> Row:
    return msgspec.structs.replace(row, options={"note": MARKUP}) if row.seed % 2 else row


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report with markup wherever a row or a recipe holds text, and records of some episodes."""
    folder = tmp_path_factory.mktemp("run")
    methods: dict[str, Any] = {**sheets.METHODS, "learned": {"law": "nano", "label": MARKUP}}
    recipe = sheets.recipe(sheets.SILO, sheets.SWARM, methods=methods, title=MARKUP, about=MARKUP)
    rows = sheets.played(recipe, sheets.by_method(teacher=0.9, quiet=0.1, learned=0.8))
    (folder / "records").mkdir()
    (folder / "records" / f"teacher_{rows[0].cell}.jsonl.gz").touch()
    report, _ = page.make(recipe, folder, rows)
    lines = [
        (MARKUP if i == 1 else str(i), *[f"{(i * 7) % 5}.5"] * 29, "—" if i == 2 else str(i))
        for i in range(6)
    ]
    grid = Table(
        MARKUP, ("method", *map(str, range(30))), (*lines, ("Verdict", *["no"] * 30)),
        (MARKUP, MARKUP), groups=(Group(0, MARKUP), Group(3, "B"), Group(6, "End")), tail=1,
    )  # fmt: skip
    listed = episodes(list(map(marked_up, rows)), recipe, folder)
    report = report._replace(tables=[grid, *report.tables], facts=[MARKUP], episodes=listed)
    return page.write_files(report, [], folder).html.as_uri()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with Chromium(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def browser(started: Chromium, written: str) -> Iterator[Chromium]:
    """The report, whose console must be empty after the test."""
    started.troubles.clear()
    started.size(1200, 900)
    started.open(written)
    yield started
    assert started.troubles == []


def column(browser: Chromium, place: int) -> list[str]:
    found: list[str] = browser.run(
        f"[...{FIRST}.tBodies[0].rows].map(row => row.cells[{place}]?.textContent ?? '*')"
    )
    return found


def test_a_click_sorts_and_a_third_one_restores(browser: Chromium) -> None:
    heads = f"{FIRST}.tHead.rows[0].cells"
    before = column(browser, 30)
    browser.run(f"{heads}[30].querySelector('button').click()")
    # what is missing comes last, and the rows about the others stay at the end
    assert column(browser, 30) == ["5", "4", "3", "1", "0", "—", "*", "no"]
    assert browser.run(f"{heads}[30].getAttribute('aria-sort')") == "descending"
    browser.run(f"{heads}[1].querySelector('button').click()")
    browser.run(f"{heads}[1].querySelector('button').click()")
    assert column(browser, 1) == ["0.5", "0.5", "1.5", "2.5", "3.5", "4.5", "*", "no"]
    assert browser.run(f"{heads}[30].getAttribute('aria-sort')") == "none"
    browser.run(f"{heads}[1].querySelector('button').click()")
    assert column(browser, 30) == before


def test_the_first_column_stays(browser: Chromium) -> None:
    left = f"{FIRST}.tBodies[0].rows[1].cells[0].getBoundingClientRect().left"
    second = f"{FIRST}.tBodies[0].rows[1].cells[1].getBoundingClientRect().left"
    before = browser.run(left), browser.run(second)
    browser.run(f"{FIRST}.parentElement.scrollLeft = 500")
    assert browser.run(left) == before[0]
    assert browser.run(second) < before[1] - 100


def test_every_part_fits_a_small_screen(browser: Chromium, written: str) -> None:
    for dark in (False, True):
        browser.size(400, 800, dark)
        browser.open(written)
        assert browser.run("document.documentElement.scrollWidth") <= 400
        size = browser.run(
            "Math.min(...[...document.querySelectorAll('svg text')].map(t => "
            "t.getBoundingClientRect().height))"
        )
        assert size >= 10, "the text of the picture can be read"
    colour = browser.run("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, colour[4:-1].split(","))) < 64, "dark where the reader likes it dark"


def test_episodes_are_found_sorted_and_lead_to_the_viewer(browser: Chromium) -> None:
    rows = "document.querySelectorAll('#episode-list tbody tr').length"
    assert browser.run(rows) == 60
    links = browser.run("[...document.querySelectorAll('#episode-list a')].map(a => a.href)")
    assert len(links) == 1 and links[0].startswith("http://127.0.0.1:8010/#run=records%2Fteacher_")
    field = "document.querySelector('[aria-label=\"Search episodes\"]')"
    browser.run(f"{field}.value = 'quiet pursuit', {field}.dispatchEvent(new Event('input'))")
    assert browser.run(rows) == 4
    assert "4 of 60" in browser.run("document.querySelector('[role=status]').textContent")


def test_markup_is_text_everywhere(browser: Chromium) -> None:
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.scripts.length") == 2, "the list and the script of the page"
    assert browser.run("window.broken") is None
    for place in ("h1", "#table-0 h2", ".opening", "#table-0 tbody", "#episode-list"):
        assert "<img src=x" in browser.run(f"document.querySelector('{place}').textContent"), place


def test_the_policy_stops_what_slips_through(browser: Chromium) -> None:
    markup = "<img src=data:, onerror=window.broken=1>"
    browser.run(f"document.querySelector('h1').innerHTML = '{markup}'")
    browser.run("new Promise(done => setTimeout(done, 100))")
    assert browser.run("window.broken") is None
    assert any("Content Security Policy" in trouble for trouble in browser.troubles)
    browser.troubles.clear()


def test_everything_that_can_be_used_has_a_name(browser: Chromium) -> None:
    nameless = browser.run(
        "[...document.querySelectorAll('button, input, svg')].filter(e => "
        "!(e.getAttribute('aria-label') || e.textContent)).map(e => e.outerHTML)"
    )
    assert nameless == []
