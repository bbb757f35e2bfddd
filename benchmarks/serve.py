"""`waggle serve` under load: many clients with requests, next to clients that never finish one.

    python -m benchmarks.serve --law heuristic --clients 200 --seconds 60 --dripping 800
    python -m benchmarks.serve --law nano --clients 200 --dripping 0 --replicas 1,2

Starts a server, lets every client request one decision after another over a connection that stays
open, and prints throughput, latencies, errors and the server's peak memory. Dripping clients open a
connection, send one byte of a header every second, and reconnect when the server closes it. Views
are those of a Silo episode. Clients and server share the machine. With replicas the law runs in
separate processes, whose memory is included, and the numbers of replicas are measured one after the
other; 0 is the law in the server itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from waggle import plugins
from waggle.core import prompt
from waggle.core.protocols import Case, Decode, Request
from waggle.runtime.sync import Engine

START_SECONDS = 120.0
_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"


@dataclass(frozen=True)
class Load:
    """The measurements of a server under one load."""

    law: str
    replicas: int
    clients: int
    dripping: int
    seconds: float
    answers: int
    errors: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    """Processor time of the server and its replicas per answer."""
    peak_mb: float
    log_bytes: int


def bodies() -> list[bytes]:
    """Return the request bodies of the nodes of one Silo episode."""
    inner = plugins.get_law("heuristic")
    found: list[bytes] = []

    class Watcher:
        name = "watcher"

        def decide(self, requests: Sequence[Request]) -> Sequence[Decode]:
            for request in requests:
                turns = prompt.messages(request.view)
                found.append(json.dumps({"model": "m", "messages": turns}).encode())
            return inner.decide(requests)

    case = Case("silo", "I-01", 16, 10_000)
    Engine(plugins.get_substrate("silo").open(case), Watcher(), case).play()
    return found


def measure(law: str, clients: int, dripping: int, seconds: float, replicas: int = 0) -> Load:
    """Serve a law in a separate process and measure it under load."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [sys.executable, "-m", "waggle", "serve", "--law", law, "--port", str(port)]
    command += ["--replicas", str(replicas)] if replicas else []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as server:
        try:
            _wait(port)
            tree = (server.pid, *_children(server.pid))
            before = sum(map(_processor, tree))
            times, errors = asyncio.run(_load(port, clients, dripping, seconds))
            spent = sum(map(_processor, tree)) - before
            peak = sum(map(_peak, tree))
        finally:
            server.terminate()
            assert server.stderr is not None
            log = server.stderr.read()
    ranked = sorted(times) or [0.0]
    return Load(
        law, replicas, clients, dripping, seconds, len(times), errors, len(times) / seconds,
        1e3 * ranked[len(ranked) // 2], 1e3 * ranked[int(0.99 * (len(ranked) - 1))],
        1e3 * spent / max(1, len(times)), peak, len(log),
    )  # fmt: skip


def _wait(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _peak(process: int) -> float:
    """Return the peak memory of a process in MB; 0 if the system does not report it."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1e3
    return 0.0


def _processor(process: int) -> float:
    """Return the processor seconds of a process; 0 if the system does not report them."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _children(process: int) -> list[int]:
    """Return the ids of a process's children; empty if the system does not report them."""
    with suppress(OSError):
        threads = Path(f"/proc/{process}/task").iterdir()
        return [int(each) for path in threads for each in (path / "children").read_text().split()]
    return []


async def _load(port: int, clients: int, dripping: int, seconds: float) -> tuple[list[float], int]:
    asked = bodies()
    end = time.monotonic() + seconds
    drips = [asyncio.create_task(_drip(port)) for _ in range(dripping)]
    found = await asyncio.gather(*(_ask(port, asked[k:] + asked[:k], end) for k in range(clients)))
    for drip in drips:
        drip.cancel()
    await asyncio.gather(*drips, return_exceptions=True)
    return [each for times, _ in found for each in times], sum(errors for _, errors in found)


async def _ask(port: int, asked: Sequence[bytes], end: float) -> tuple[list[float], int]:
    """Send one request after another; a closed connection counts as an error and is reopened."""
    times: list[float] = []
    errors = turn = 0
    while time.monotonic() < end:
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while time.monotonic() < end:
                body = asked[turn % len(asked)]
                turn, began = turn + 1, time.monotonic()
                writer.write(_HEAD % len(body) + body)
                answer = await reader.readuntil(b"\r\n\r\n")
                length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                if not answer.startswith(b"HTTP/1.1 200"):
                    raise ConnectionError(answer[:12])
                times.append(time.monotonic() - began)
        except (OSError, EOFError, IndexError, asyncio.IncompleteReadError):
            errors += 1
            await asyncio.sleep(0.05)
        finally:
            if writer is not None:
                writer.close()
    return times, errors


async def _drip(port: int) -> None:
    """Send a header byte by byte until cancelled."""
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nX: ")
                while not writer.is_closing():
                    await asyncio.sleep(1)
                    writer.write(b"a")
                    await writer.drain()
            finally:
                writer.close()
        await asyncio.sleep(0.1)


def main() -> None:
    """Run the measurements of the command line; print one JSON object for every load."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--law", default="heuristic")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--dripping", type=int, default=800)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--replicas", default="0", help="several with commas between them")
    asked = parser.parse_args()
    for replicas, dripping in product(
        map(int, asked.replicas.split(",")), dict.fromkeys((0, asked.dripping))
    ):
        found = measure(asked.law, asked.clients, dripping, asked.seconds, replicas)
        sys.stdout.write(json.dumps(asdict(found)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
