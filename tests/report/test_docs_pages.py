"""The results pages of the documentation are what the rows give, and so is the table of the README.

Written anew by `waggle report results --pages docs/results`; the README takes the table of
`docs/results/summary.md` between its two marks.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from waggle.cli.main import main
from waggle.report import docs_pages

ROOT = Path(__file__).parents[2]
RESULTS, PAGES = ROOT / "results", ROOT / "docs" / "results"
FOLDERS = docs_pages.archives(RESULTS)
BEGIN, END = "<!-- results:begin -->\n", "<!-- results:end -->"


def written(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_page_is_what_the_rows_give(folder: Path) -> None:
    assert docs_pages.page_of(folder) == written(f"{folder.name}.md")


def test_index_summary_and_readme_are_what_the_rows_give() -> None:
    assert docs_pages.index(FOLDERS) == written(docs_pages.INDEX)
    table = docs_pages.summary(RESULTS / docs_pages.PRIMARY)
    assert written(docs_pages.SUMMARY).endswith(f"\n\n{table}")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.partition(BEGIN)[2].partition(END)[0] == table


def test_there_is_a_page_for_every_archive_and_no_other() -> None:
    names = {f"{folder.name}.md" for folder in FOLDERS}
    assert {path.name for path in PAGES.iterdir()} == names | {"index.md", "summary.md"}


def test_every_page_says_what_is_compared_and_how_it_is_played() -> None:
    for folder in FOLDERS:
        text = written(f"{folder.name}.md")
        about = text.splitlines()[4]
        assert about.endswith(".") and about in written("index.md")
        assert "waggle eval recipes/" in text and f"waggle report results/{folder.name}" in text


def test_the_command_writes_pages_and_refuses_a_folder_without_archives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(RESULTS / "flocking_transport", tmp_path / "results" / "flocking_transport")
    target = tmp_path / "docs" / "results"
    assert main(["report", str(tmp_path / "results"), "--pages", str(target)]) == 0
    assert {path.name for path in target.iterdir()} == {"flocking_transport.md", "index.md"}
    page = (target / "flocking_transport.md").read_text(encoding="utf-8")
    assert page == written("flocking_transport.md")
    assert main(["report", str(target), "--pages", str(tmp_path)]) == 2
    assert "holds no archive" in capsys.readouterr().err
