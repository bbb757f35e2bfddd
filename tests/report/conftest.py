"""Fixtures of several tests."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest


@pytest.fixture
def rough_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw figures once and as small bitmaps, in a fraction of the time."""

    def bitmap(panel: Any, name: str, format: str) -> bytes:
        if format == "pdf":
            return b""
        with BytesIO() as file:
            panel.figure.savefig(file, format="png", dpi=20)
            return file.getvalue()

    monkeypatch.setattr("waggle.report.figure._bytes", bitmap)
