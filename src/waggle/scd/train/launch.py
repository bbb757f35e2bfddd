"""A torchrun wrapper that exits with the code of its processes and prints no traceback.

    python -m waggle.scd.train.launch --nproc-per-node 8 -m waggle learn agentsnet --out runs/all

Options are those of torchrun. `waggle learn` exits with code 1, after a one-line message, if the
law is not better than its start; torchrun would report that as a crash, in thirty lines. A process
that failed has already printed the reason, so a message is added only if it was killed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Start processes, wait for them, and return the exit code of the first that failed, or 0."""
    from torch.distributed.elastic.multiprocessing import api
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    run: Any = import_module("torch.distributed.run")  # has no annotations
    logging.getLogger(api.__name__).setLevel(logging.CRITICAL)
    try:
        run.run(run.parse_args(arguments))
    except ChildFailedError as error:
        rank, failed = error.get_first_failure()
        if failed.exitcode < 0:
            sys.stderr.write(f"waggle: process {rank} was killed by {failed.signal_name()}\n")
        return max(int(failed.exitcode), 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
