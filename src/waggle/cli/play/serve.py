"""`waggle serve`: a law over an OpenAI-compatible API."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from functools import partial
from typing import Literal

from waggle.cli import console, options
from waggle.cli.options import Flag, LawOptions
from waggle.core.errors import ConfigError
from waggle.extras import install


def serve(
    *,
    law: str = "local",
    law_options: LawOptions = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    max_queue: int = 1024,
    max_batch: int = 64,
    max_connections: int = 2048,
    replicas: int | None = None,
    replicas_on: Literal["here", "ray"] = "here",
    public: Flag = False,
) -> None:
    """Serve a law over an OpenAI-compatible API.

    `waggle run` and `waggle eval` use the server as law `chat` with `--law.base-url
    http://HOST:PORT/v1`. Their views may list records in any order: a law of canonical order
    receives canonical views. The server listens on this machine only, unless `--public` is given;
    it then requires a token, which is taken from the environment variable WAGGLE_TOKEN or else
    generated and printed. Clients send it as API key. `/metrics` serves counters for Prometheus.
    With `--replicas`, the law runs in separate processes, which are restarted if they die. Needs
    the extra `serve`. Example:

    `waggle serve --law nano --port 8000`

    Args:
        law: Name from `waggle list laws`, or a law's folder. Pass its options as `--law.KEY VALUE`.
        host: Address to listen on.
        port: Port to listen on.
        max_queue: Maximum waiting requests; further ones are answered with 429.
        max_batch: Maximum requests per batch.
        max_connections: Maximum concurrent clients; further ones are refused.
        replicas: Number of copies of the law that decide batches in parallel, assigned to GPUs in
            turn. Default: the law runs in the server process.
        replicas_on: Where replicas run: in processes on this machine, or as actors on a Ray cluster
            (`pip install ray`).
        public: Allow an address that other machines can reach; use it on trusted networks only.
    """
    _guard(port, max_queue, max_batch, max_connections)
    if replicas is not None and not 1 <= replicas <= 256:
        raise ConfigError("--replicas must be 1 to 256")
    try:
        import uvicorn

        from waggle.compat import limits
        from waggle.compat.meters import Meters
        from waggle.compat.openai_server import app
        from waggle.compat.replicas import opened
    except ImportError as error:
        raise ConfigError(
            f"serving needs starlette and uvicorn; install them with `{install('serve')}`"
        ) from error
    if not public and not limits.loopback(host):
        raise ConfigError(f"--host {host} can be reached from outside; add --public to allow it")
    options.require_free(host, port)
    source = options.make_law(law, law_options)
    given = os.environ.get(limits.TOKEN)
    token = limits.token_for(host, given)
    meters = Meters()
    with ExitStack() as stack:
        # Report missing weights now, not at the first request.
        if replicas is None:
            getattr(source, "load", lambda: None)()
            copies = []
        else:
            make = partial(options.make_law, law, law_options)
            copies = stack.enter_context(opened(law, make, replicas, replicas_on))
            # On SIGTERM the server stops its replicas first, as on Ctrl-C.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        console.note(f"serving {law} on http://{host}:{port}/v1; stop with Ctrl-C")
        if token and not given:
            console.note(f"clients send this token as their API key: {token}")
        server = app(
            source, replicas=copies, max_queue=max_queue, max_batch=max_batch,
            hosts=limits.names_of(host), token=token, meters=meters,
        )  # fmt: skip
        uvicorn.run(
            server, host=host, port=port, log_level="error", ws="none", backlog=128,
            http=limits.limited(meters, min(max_connections, _files())),
            h11_max_incomplete_event_size=limits.MAX_HEADERS, server_header=False,
        )  # fmt: skip


def _files() -> int:
    """Return the number of connections this process may open in addition to its own files."""
    try:
        import resource
    except ImportError:
        return 512
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return 65_536 if most == resource.RLIM_INFINITY else max(64, most - 512)


def _guard(port: int, max_queue: int, max_batch: int, max_connections: int) -> None:
    options.require_port(port)
    if not 1 <= max_batch <= 4096 or not 1 <= max_queue <= 65_536:
        raise ConfigError("--max-batch must be 1 to 4096 and --max-queue 1 to 65536")
    if not 1 <= max_connections <= 65_536:
        raise ConfigError("--max-connections must be 1 to 65536")
