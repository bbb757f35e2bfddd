"""Worker processes end with whoever called them, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CALLER = """
import os, time
from multiprocessing import get_context

from waggle.process_pool import process_pool, end_with_parent


def lane():
    end_with_parent()
    print(os.getpid(), flush=True)
    time.sleep(300)


if __name__ == "__main__":
    if {pooled}:
        with process_pool(1) as pool:
            print(pool.submit(os.getpid).result(), flush=True)
            pool.submit(time.sleep, 300).result()
    else:
        process = get_context("spawn").Process(target=lane)
        process.start()
        process.join()
"""


def alive(process: int) -> bool:
    """Whether a process runs; one that only waits to be collected does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("pooled", [True, False])
def test_no_worker_stays_behind_after_a_kill(tmp_path: Path, pooled: bool) -> None:
    script = tmp_path / "caller.py"
    script.write_text(CALLER.format(pooled=pooled))
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        worker = int(caller.stdout.readline())
        assert alive(worker)
        os.kill(caller.pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while alive(worker) and time.monotonic() < end:
        time.sleep(0.1)
    assert not alive(worker)
