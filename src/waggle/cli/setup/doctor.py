"""`waggle doctor`: what is installed here, and what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from waggle import __version__, plugins
from waggle.built_in import BUILT_IN
from waggle.cli import console
from waggle.cli.options import AsJson
from waggle.extras import EXTRAS, USES, install

_CORE = ("numpy", "scipy", "networkx", "msgspec", "pydantic", "cyclopts", "rich")


class Finding(NamedTuple):
    """One line of the check."""

    topic: str
    ok: bool
    required: bool
    text: str


def doctor(*, json: AsJson = False) -> int:
    """Check the installation.

    Shows versions, features that are unavailable because an extra is missing, substrates and laws
    that fail to load, accelerators, the browser for `waggle gif` and free disk space. The exit code
    is 1 only if a package that every command needs is missing.
    """
    findings = [
        *_python(), *_packages(), *_extras(), *_plugins(), _device(), _browser(), _disk(),
    ]  # fmt: skip
    sound = all(f.ok for f in findings if f.required)
    if json:
        console.dump({"ok": sound, "findings": [f._asdict() for f in findings]})
        return 0 if sound else 1
    rows = [(_mark(finding), finding.topic, finding.text) for finding in findings]
    console.table(None, ("", "what", "state"), rows, right=9)
    console.say("ready" if sound else "not ready: see MISSING above")
    return 0 if sound else 1


def _mark(finding: Finding) -> str:
    if finding.ok:
        return "ok"
    return "MISSING" if finding.required else "-"


def _python() -> list[Finding]:
    version = platform.python_version()
    fine = sys.version_info >= (3, 11)
    return [
        Finding("waggle", True, True, __version__),
        Finding("python", fine, True, f"{version} at {sys.executable}"),
        Finding("machine", True, False, f"{platform.system()} {platform.machine()}, "
                f"{os.cpu_count()} cores"),
    ]  # fmt: skip


def _packages() -> list[Finding]:
    found = [_package(name, True, "pip install waggle-swarm") for name in _CORE]
    known: set[str] = set()
    for names in EXTRAS.values():
        found += [_package(name, False, "see below") for name in names if name not in known]
        known.update(names)
    return found


def _extras() -> list[Finding]:
    """Report the purpose of every extra, or what cannot run without it and what can."""
    found = []
    for extra, names in EXTRAS.items():
        lacks = [name for name in names if not _package(name, False, "").ok]
        use = USES[extra]
        text = use.serves
        if lacks:
            text = (
                f"cannot run: {use.serves}; add it with `{install(extra)}`; "
                f"{use.without} without it"
            )
        found.append(Finding(f"extra {extra}", not lacks, False, text))
    return found


def _package(name: str, required: bool, fix: str) -> Finding:
    try:
        return Finding(name, True, required, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, required, f"not installed: {fix}")


def _plugins() -> list[Finding]:
    known = ", ".join(f"{len(plugins.names(kind))} {kind}s" for kind in BUILT_IN)
    broken = {f"{k} {name}": why for k in BUILT_IN for name, why in plugins.broken(k).items()}
    found = [Finding("catalogue", True, True, known)]
    return found + [Finding(name, False, False, why) for name, why in broken.items()]


def _device() -> Finding:
    if importlib.util.find_spec("torch") is None:
        return Finding("accelerator", False, False, "unknown: torch is not installed")
    import torch

    if torch.cuda.is_available():
        return Finding("accelerator", True, False, torch.cuda.get_device_name(0))
    return Finding("accelerator", False, False, f"none; {torch.get_num_threads()} CPU threads")


def _browser() -> Finding:
    from waggle.view.chromium import PROGRAM

    if PROGRAM is None:
        return Finding("browser", False, False, "none for `waggle gif`; install Chromium or Chrome")
    return Finding("browser", True, False, f"{PROGRAM}, for `waggle gif`")


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    return Finding("disk", free > 1, False, f"{free:.1f} GiB free here")
