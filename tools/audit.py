"""Report known vulnerabilities of all installed packages: `make audit`.

pip-audit queries the package index for every release. It skips releases that the index does not
answer for, and then reports no vulnerabilities: builds with a local version such as `2.13.0+cpu`,
and every release on an index that has pages for projects but not for their releases. Skipped ones
are queried again by their public version, and on the project's page, which lists the advisories of
the newest release. Packages still unchecked are named. The exit status is 0 if everything was
checked and is clean, 1 if a vulnerability is known, and 2 if none is but a package is unchecked.
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
    """Audit this environment; print the vulnerabilities and the packages left unchecked."""
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
    """Return the advisories that the index lists for a release; None if it has no answer."""
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
