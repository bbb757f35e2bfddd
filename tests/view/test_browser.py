"""The page in a real browser: play, choose, compare, follow a trace, export, keys, width."""

from __future__ import annotations

from pathlib import Path

import waggle
from waggle.view.app import static
from waggle.view.chromium import Chromium
from waggle.view.export import MODULES, export
from waggle.view.library import Library

PLAYER = "waggleViewer()"


def text(browser: Chromium, what: str) -> str:
    return str(browser.run(f"document.querySelector({what!r}).innerText"))


def test_an_episode_plays_to_its_end(browser: Chromium, address: str) -> None:
    browser.open(f"{address}#run=beacon.jsonl.gz")
    assert "Round 0 of" in text(browser, ".status")
    browser.run("document.querySelector('[aria-label=\"Rounds a second\"]').value = '16'")
    browser.run("document.querySelector('.play').click()")
    browser.until(f"!{PLAYER}.playing")
    last = browser.run(f"{PLAYER}.last")
    assert f"Round {last} of {last}" in text(browser, ".status")
    assert browser.run(f"{PLAYER}.frames") > 3, "it was drawn in between"


def test_keys_play_and_step(browser: Chromium, address: str) -> None:
    browser.open(f"{address}#run=beacon.jsonl.gz&round=4")
    browser.press("ArrowRight")
    assert browser.run(f"{PLAYER}.round") == 5
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    assert browser.run(f"{PLAYER}.round") == 3
    browser.press(" ")
    assert browser.run(f"{PLAYER}.playing") is True
    browser.press(" ")
    assert browser.run(f"{PLAYER}.playing") is False
    browser.press("End")
    assert browser.run(f"{PLAYER}.round == {PLAYER}.last") is True


def test_a_click_shows_what_an_agent_saw_and_said(browser: Chromium, address: str) -> None:
    browser.open(f"{address}#run=beacon.jsonl.gz&round=6")
    place = browser.run(
        f"(() => {{ const s = {PLAYER}.tracks[0].stage, box = s.canvas.getBoundingClientRect();"
        "return [box.left + 1 + s.places[3][0], box.top + 1 + s.places[3][1]]; })()"
    )
    browser.click(*place)
    browser.until("document.querySelector('.decision h3')")
    assert text(browser, ".decision h3").startswith("Agent 3 in round 6")
    panel = text(browser, ".decision")
    assert "Commit to the colour" in panel and "task_action" in panel and "[object" not in panel
    assert browser.run("document.querySelector('details pre').textContent.includes('Schema:')")
    browser.run("document.querySelectorAll('.panel .bar button')[1].click()")
    browser.until("document.querySelector('.decision h3').innerText.includes('round 7')")
    browser.run("document.querySelectorAll('.panel .bar button')[0].click()")
    browser.until("document.querySelector('.decision h3').innerText.includes('round 6')")


def test_what_was_suppressed_is_shown_with_its_cause(
    browser: Chromium, address: str, runs: Path
) -> None:
    played = waggle.read(runs / "beacon.jsonl.gz").rounds
    silenced = ((entry.round, update.node, write.cause) for entry in played
                for update in entry.updates for write in update.writes if write.cause)  # fmt: skip
    number, agent, cause = next(silenced)
    browser.open(f"{address}#run=beacon.jsonl.gz&round={number}")
    browser.run(f"{PLAYER}.tracks[0].go({number}, {agent})")
    browser.until("document.querySelector('.decision h3')")
    assert f"silenced: {cause}" in text(browser, ".decision dl")


def test_a_trace_is_followed_back_to_evidence(browser: Chromium, address: str) -> None:
    browser.open(f"{address}#run=beacon.jsonl.gz&round=8")
    agent = browser.run(
        f"(() => {{ const e = {PLAYER}.tracks[0].episode; for (let a = 0; a < e.n; a++) {{"
        "const found = e.sources(a, 8, 1)[0]; if (found && found.kind === 1) return a; } })()"
    )
    browser.run(f"{PLAYER}.tracks[0].go(8, {agent})")
    browser.until("document.querySelector('.follow')")
    browser.run("document.querySelector('.follow').click()")
    hops = browser.run("document.querySelectorAll('.hops li').length")
    assert hops >= 2 and "from its own evidence" in text(browser, ".decision")
    assert "fresh" in browser.run("[...document.querySelectorAll('.hops li')].at(-1).innerText")
    browser.run("[...document.querySelectorAll('.hops button')].at(-1).click()")
    browser.until(f"document.querySelector('.decision h3').innerText.startsWith("
                  f"`Agent ${{{PLAYER}.tracks[0].stage.agent}} in`)")  # fmt: skip
    assert "fresh" in text(browser, ".decision dl"), "its sender wrote it from what it saw itself"


def test_two_runs_share_a_clock(browser: Chromium, address: str) -> None:
    browser.open(address)
    boxes = "document.querySelectorAll('tbody input[type=checkbox]')"
    assert browser.run(f"{boxes}.length") == 3, "the cut record cannot be compared"
    browser.run("document.querySelector('[aria-label=\"Compare beacon.jsonl.gz\"]').click()")
    browser.run("document.querySelector('[aria-label=\"Compare maps/pursuit.jsonl.gz\"]').click()")
    browser.run(
        "[...document.querySelectorAll('button')].find(b => b.innerText === 'Compare two').click()"
    )
    browser.until("document.querySelectorAll('canvas.stage').length === 2")
    browser.run(f"{PLAYER}.set(7)")
    shown = browser.run("[...document.querySelectorAll('.status')].map(s => s.innerText)")
    assert [line.startswith("Round 7 of") for line in shown] == [True, True]


def test_runs_are_searched_filtered_and_sorted(browser: Chromium, address: str) -> None:
    browser.open(address)
    count = "document.querySelectorAll('tbody tr').length"
    assert browser.run(count) == 4 and "cut.jsonl.gz" in text(browser, ".broken")

    def typed(label: str, value: str) -> int:
        field = f"document.querySelector('[aria-label=\"{label}\"]')"
        browser.run(f"{field}.value = {value!r}, ['input', 'change'].forEach("
                    f"kind => {field}.dispatchEvent(new Event(kind)))")  # fmt: skip
        return int(browser.run(count))

    assert typed("Search runs", "pursuit") == 1
    assert typed("Search runs", "") == 4
    assert typed("Filter by task", "beacon") == 1
    assert typed("Filter by task", "") == 4
    assert typed("Score at least", "0.6") == 2
    assert typed("Score at least", "") == 4
    browser.run("document.querySelectorAll('th button')[2].click()")
    assert (
        browser.run("document.querySelectorAll('th')[3].getAttribute('aria-sort')") == "ascending"
    )


def test_markup_in_a_record_is_text(browser: Chromium, address: str) -> None:
    browser.open(f"{address}#run=markup.jsonl.gz&round=0&agent=0")
    browser.until("document.querySelector('.decision h4')")
    assert browser.run("document.querySelectorAll('main img, main script').length") == 0
    assert browser.run("window.broken") is None
    assert "<script>" in text(browser, ".decision")
    browser.open(address)
    assert "<img src=x" in text(browser, "tbody")
    assert browser.run("document.querySelectorAll('main img, main script').length") == 0


def test_a_record_that_cannot_be_shown_is_one_line(started: Chromium, address: str) -> None:
    for run in ("cut.jsonl.gz", "../../etc/passwd"):
        started.troubles.clear()
        started.open(f"{address}#run={run}")
        assert text(started, "[role=alert]").count("\n") == 0
        for _ in range(1000):  # the console tells of the refusal later, and not in the next test
            if started.troubles:
                break
            started.run("new Promise(done => setTimeout(done, 10))")
        assert "400" in started.troubles[0]


def test_a_small_screen_needs_no_scrolling_sideways(browser: Chromium, address: str) -> None:
    browser.size(400, 800)
    for place in ("", "#run=beacon.jsonl.gz&round=3&agent=2", "#run=maps/pursuit.jsonl.gz"):
        browser.open(address + place)
        assert browser.run("document.documentElement.scrollWidth") <= 400, place


def test_everything_that_can_be_used_has_a_name(browser: Chromium, address: str) -> None:
    for place in ("", "#run=beacon.jsonl.gz&round=3&agent=2"):
        browser.open(address + place)
        nameless = browser.run(
            "[...document.querySelectorAll('button, input, select, canvas')].filter(e => "
            "!(e.getAttribute('aria-label') || e.innerText)).map(e => e.outerHTML)"
        )
        assert nameless == []


def test_an_export_opens_from_the_disk(browser: Chromium, runs: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert export(Library(runs / "maps"), site) == 1
    browser.open(f"{site.as_uri()}/index.html")
    assert "pursuit" in text(browser, "tbody")
    browser.open(f"{site.as_uri()}/index.html#run=pursuit.jsonl.gz&round=5&agent=2")
    browser.until("document.querySelector('.decision h4')")
    assert text(browser, ".decision h3").startswith("Agent 2 in round 5")
    assert "window" in text(browser, ".decision")


def test_the_export_takes_every_module() -> None:
    assert sorted(MODULES) == [name for name in static() if name.endswith(".js")]
