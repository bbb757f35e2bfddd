"""The audit tells what is known from what nobody could check."""

from __future__ import annotations

import io
import json
import subprocess
from typing import Any, TypeAlias
from urllib.error import URLError

import pytest

from tools import audit

Pages: TypeAlias = dict[str, tuple[str, list[str]]]
PROJECT = "https://pypi.org/pypi/{}/json"
RELEASE = "https://pypi.org/pypi/{}/{}/json"


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Return a function that audits what pip-audit and the index say: status and text."""

    def run(said: list[dict[str, Any]] | str, pages: Pages) -> Any:
        text = said if isinstance(said, str) else json.dumps({"dependencies": said, "fixes": []})
        answer = subprocess.CompletedProcess(
            [], 0, text, "Traceback\nConnectionError: no network\n"
        )

        def page(url: str, timeout: float) -> io.StringIO:
            if url not in pages:
                raise URLError("Not Found")
            release, known = pages[url]
            ids = [{"id": one, "withdrawn": "yes" if one == "OLD" else None} for one in known]
            return io.StringIO(json.dumps({"info": {"version": release}, "vulnerabilities": ids}))

        monkeypatch.setattr("subprocess.run", lambda *_, **__: answer)
        monkeypatch.setattr("urllib.request.urlopen", page)
        monkeypatch.setattr(audit, "version", {"newest": "3.1", "older": "1.0+cpu"}.__getitem__)
        status = audit.main()
        return status, "".join(capfd.readouterr())

    return run


CLEAN = {"name": "clean", "version": "1", "vulns": []}
OURS = {"name": "waggle-swarm", "skip_reason": "distribution marked as editable"}
NEWEST = {"name": "newest", "skip_reason": "not found"}
OLDER = {"name": "older", "skip_reason": "not found"}


def test_what_was_checked_and_is_clean_is_success(audited: Any) -> None:
    assert audited([CLEAN, OURS], {}) == (0, "1 packages checked, 0 of them with known "
                                             "vulnerabilities\n")  # fmt: skip


def test_what_pip_audit_skips_is_asked_for_by_its_public_version_and_on_the_newest_page(
    audited: Any,
) -> None:
    pages: Pages = {
        PROJECT.format("newest"): ("3.1", ["OLD"]),
        RELEASE.format("older", "1.0"): ("1.0", []),
    }
    status, said = audited([CLEAN, NEWEST, OLDER], pages)
    assert status == 0 and said.startswith("3 packages checked, 0 of them")


def test_what_nobody_tells_is_one_line_and_no_success(audited: Any) -> None:
    pages: Pages = {PROJECT.format("newest"): ("3.1", []), PROJECT.format("older"): ("2.0", [])}
    status, said = audited([NEWEST, OLDER], pages)
    assert status == 2 and said.count("\n") == 2
    assert "1 packages NOT checked" in said and said.endswith("releases: older 1.0+cpu\n")
    assert audited("", {}) == (
        2, "nothing was checked: pip-audit gave no answer (ConnectionError: no network)\n",
    )  # fmt: skip


def test_what_is_known_has_a_status_of_its_own(audited: Any) -> None:
    bad = {"name": "bad", "version": "1", "vulns": [{"id": "PYSEC-1"}, {"id": "PYSEC-2"}]}
    status, said = audited([bad, NEWEST, OLDER], {PROJECT.format("newest"): ("3.1", ["PYSEC-3"])})
    assert status == 1, "also where something else could not be checked"
    assert said.startswith("bad 1: PYSEC-1, PYSEC-2\nnewest 3.1: PYSEC-3\n2 packages checked, 2 of")
