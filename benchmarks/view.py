"""How fast does the viewer open an episode, and how smoothly does it play?

    python -m benchmarks.view runs/view-speed

Records N = 64 x 100, 1,000 x 50 and 10,000 x 20 rounds in the folder if they are missing (the last
takes a minute or more), serves them from a separate process and opens them in headless Chromium.
Then a list of 1,000 records is read, and the server's memory is measured. Besides wall-clock
seconds, it prints processor seconds of the server, which a busy machine does not change.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import waggle
from waggle.cli import console
from waggle.view.chromium import Chromium

EPISODES = (("small", 64, 100), ("middle", 1_000, 50), ("large", 10_000, 20))
RUNS = 1_000
PORT = 8017
_TICK = os.sysconf("SC_CLK_TCK")


class Server:
    """A separate process that runs `waggle view` on a folder."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "waggle", "view", str(folder), "--port", str(PORT)]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.address = f"http://127.0.0.1:{PORT}/"
        while True:
            try:
                urlopen(self.address).close()
                return
            except OSError:
                time.sleep(0.1)

    @property
    def seconds(self) -> float:
        """Processor seconds so far."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / _TICK

    @property
    def megabytes(self) -> int:
        """Peak memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (found,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
        return int(found) >> 10

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait()


def made(folder: Path) -> None:
    """Play and save the episodes that are missing in a folder."""
    for name, n, rounds in EPISODES:
        path = folder / f"{name}.jsonl.gz"
        if not path.exists():
            waggle.run("beacon", n=n, seed=3, rounds=rounds, shock=True).save(path)


def opened(browser: Chromium, server: Server, name: str) -> tuple[float, float]:
    """Return the seconds until a record can be played, and the server's processor seconds."""
    before, start = server.seconds, time.perf_counter()
    browser.open(f"{server.address}#run={name}.jsonl.gz")
    return time.perf_counter() - start, server.seconds - before


def frames(browser: Chromium, seconds: float = 4.0) -> float:
    """Return the frames per second while an episode plays."""
    count = "waggleViewer().frames"
    browser.run("waggleViewer().play()")
    before, start = browser.run(count), time.perf_counter()
    time.sleep(seconds)
    return float(browser.run(count) - before) / (time.perf_counter() - start)


def main() -> None:
    """Run all measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the episodes lie or are made")
    folder = parser.parse_args().folder
    made(folder)
    rows: list[tuple[str, object]] = []
    with TemporaryDirectory(ignore_cleanup_errors=True) as own:
        browser, server = Chromium(Path(own) / "profile"), Server(folder)
        browser.size(1200, 900)
        for name, n, rounds in EPISODES:
            seconds, processor = opened(browser, server, name)
            rows.append((f"N = {n:,} x {rounds}: seconds to open", seconds))
            rows.append(("   of them processor seconds of the server", processor))
            rows.append(("   frames a second", frames(browser)))
        rows.append(("   memory of the server, MB", server.megabytes))
        server.close()
        many = Path(own) / "many"
        many.mkdir()
        for number in range(RUNS):
            shutil.copy(folder / "small.jsonl.gz", many / f"{number:04}.jsonl.gz")
        server = Server(many)
        before, start = server.megabytes, time.perf_counter()
        browser.open(server.address)
        rows.append((f"{RUNS:,} records: seconds to the first", time.perf_counter() - start))
        while browser.run("waggleViewer().rows.length") < RUNS:
            time.sleep(0.5)
        rows.append(("   seconds to the last", time.perf_counter() - start))
        rows.append(("   memory of the server before, MB", before))
        rows.append(("   memory of the server after, MB", server.megabytes))
        server.close()
        browser.close()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    console.table(f"Viewer, {os.cpu_count()} cores, load {load}", ("", ""), rows)


if __name__ == "__main__":
    main()
