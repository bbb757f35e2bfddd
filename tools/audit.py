"""Known vulnerabilities of everything installed: `make audit`.

pip-audit asks the package index about every release. What the index does not answer it skips, and
then says that nothing was found: builds with a local version such as `2.13.0+cpu`, and everything
on an index that has pages of projects but not of their releases. These are asked for once more, by
the public version and on the project's page, which tells the advisories of the newest release. What
is left is named. The exit status is 0 where everything was checked and is clean, 1 where something
is known, and 2 where nothing is known and something could not be checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from typing import Any

INDEX = "https://pypi.org/pypi"
COMMAND = ("pip_audit", "--skip-editable", "--progress-spinner", "off", "-f", "json")


def main() -> int:
    """Audit this environment; say what is known and what could not be checked."""
    run = subprocess.run([sys.executable, "-m", *COMMAND], capture_output=True, text=True)
    try:
        packages = json.loads(run.stdout)["dependencies"]
    except ValueError:
        reason = (run.stderr.splitlines() or [f"status {run.returncode}"])[-1]
        print(f"nothing was checked: pip-audit gave no answer ({reason})", file=sys.stderr)
        return 2
    found = {(p["name"], p["version"]): p["vulns"] for p in packages if "version" in p}
    skipped = [p["name"] for p in packages if "editable" not in p.get("skip_reason", "editable")]
    left = [(name, version(name)) for name in skipped]
    with ThreadPoolExecutor(8) as pool:
        again = dict(zip(left, pool.map(advisories, left), strict=True))
    found |= {package: known for package, known in again.items() if known is not None}
    unchecked = [" ".join(package) for package in left if package not in found]
    wrong = {package: known for package, known in found.items() if known}
    for (name, release), known in sorted(wrong.items()):
        print(f"{name} {release}: {', '.join(one['id'] for one in known)}")
    print(f"{len(found)} packages checked, {len(wrong)} of them with known vulnerabilities")
    if unchecked:
        print(
            f"{len(unchecked)} packages NOT checked, the index tells no advisories of these "
            f"releases: {', '.join(unchecked)}",
            file=sys.stderr,
        )
    return 1 if wrong else 2 if unchecked else 0


def advisories(package: tuple[str, str]) -> list[Any] | None:
    """Return what the index knows against a release; None where it does not say."""
    name, release = package
    public = release.partition("+")[0]
    for page in (f"{name}/{public}", name):
        with suppress(OSError, ValueError, KeyError):  # no such page, or not this answer
            with urllib.request.urlopen(f"{INDEX}/{page}/json", timeout=20) as answer:
                known = json.load(answer)
            if known["info"]["version"] == public:
                return [one for one in known["vulnerabilities"] if not one.get("withdrawn")]
    return None


if __name__ == "__main__":
    sys.exit(main())
