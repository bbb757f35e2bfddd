"""A headless Chromium, driven over the two pipes of its DevTools protocol without any library.

`waggle gif` takes its screenshots with it, and tests use it to check rendered pages.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from waggle.core.errors import ConfigError, WaggleError

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PROGRAM = next(filter(None, map(shutil.which, _NAMES)), None)
"""Path of the installed browser, or None."""
PATIENCE = 60.0
"""Timeout in seconds for an answer of the browser; long, because a busy machine is slow."""

_LAUNCH = """
import os, sys
one, two = (os.dup(int(n)) for n in sys.argv[1:3])
one, two = os.dup(one), os.dup(two)
os.dup2(one, 3), os.dup2(two, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Launcher that gives the browser its pipes as file descriptors 3 and 4, where it expects them."""


class Chromium:
    """One browser with one page; `troubles` collects the console's errors and warnings."""

    def __init__(self, profile: Path) -> None:
        """Start a browser whose profile is an empty folder.

        Raises:
            ConfigError: if no browser is installed.
        """
        if PROGRAM is None:
            raise ConfigError("no Chromium or Chrome on this machine; install one of them")
        inward, self._to = os.pipe()
        self._from, outward = os.pipe()
        options = (
            "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--remote-debugging-pipe", f"--user-data-dir={profile}",
            "--disable-background-networking",
            *(("--no-sandbox",) if os.geteuid() == 0 else ()),  # the sandbox does not work as root
            "about:blank",
        )  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(inward), str(outward), PROGRAM, *options],
            pass_fds=(inward, outward), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(inward)
        os.close(outward)
        self._buffer, self._count, self._session = b"", 0, ""
        self.troubles: list[str] = []
        try:
            target = self._ask("Target.createTarget", url="about:blank")["targetId"]
            found = self._ask("Target.attachToTarget", targetId=target, flatten=True)
            self._session = found["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self._ask(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        call = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            call["sessionId"] = self._session
        try:
            os.write(self._to, json.dumps(call).encode() + b"\0")
        except BrokenPipeError:
            raise WaggleError("the browser has ended; try again, or start it by hand") from None
        while True:
            said = self._next()
            if said.get("id") == self._count:
                if "error" in said:
                    raise WaggleError(f"the browser refuses {method}: {said['error']}")
                result: dict[str, Any] = said["result"]
                return result
            self._hear(said)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], PATIENCE)
            part = os.read(self._from, 1 << 20) if ready else b""
            if not part:
                raise WaggleError("the browser does not answer; try again on an idle machine")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        return said

    def _hear(self, said: dict[str, Any]) -> None:
        method, about = said.get("method"), said.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.troubles.append(str(about["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.troubles.append(str(about["args"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.troubles.append(about["entry"]["text"])

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the page and its colour scheme."""
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[feature])

    def open(self, address: str) -> None:
        """Load an address from a blank page; wait until its script is ready or shows an alert."""
        self._ask("Page.navigate", url="about:blank")
        self._ask("Page.navigate", url=address)
        self.until("document.body?.dataset.ready || document.querySelector('[role=alert]')")

    def run(self, script: str) -> Any:
        """Evaluate a JavaScript expression, await the result and return it."""
        found = self._ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise WaggleError(f"the page failed: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise WaggleError(f"the page is not ready: {condition} never came true")
            time.sleep(0.05)

    def click(self, x: float, y: float) -> None:
        """Press and release the left mouse button at a position of the page."""
        for kind in ("mousePressed", "mouseReleased"):
            self._ask(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )  # fmt: skip

    def press(self, key: str) -> None:
        """Press and release a key, by its name."""
        for kind in ("keyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self) -> bytes:
        """Return a screenshot as PNG."""
        return base64.b64decode(self._ask("Page.captureScreenshot")["data"])

    def close(self) -> None:
        """End the browser."""
        os.close(self._to)
        os.close(self._from)
        self._process.terminate()
        self._process.wait(timeout=PATIENCE)

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
