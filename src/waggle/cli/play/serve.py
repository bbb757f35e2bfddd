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

    `waggle run` and `waggle eval` reach it as law `chat` with `--law.base-url http://HOST:PORT/v1`,
    and may list their views in any order: a law of canonical order gets canonical views. The server
    listens on this machine only, unless `--public` is given, and then asks for a token: that of the
    environment variable WAGGLE_TOKEN, or a new one that it prints. Clients send it as API key.
    `/metrics` counts for Prometheus. With `--replicas` the law lives in processes of its own, which
    are started again if they die. Needs the extra `serve`. Example:

    `waggle serve --law nano --port 8000`

    Args:
        law: A name of `waggle list laws` or a law's folder. Its own options follow as
            `--law.KEY VALUE`.
        host: Address to listen on.
        port: Port to listen on.
        max_queue: Requests that may wait; more are answered with 429.
        max_batch: The most requests in one batch.
        max_connections: The most clients at a time; more are turned away.
        replicas: Copies of the law that decide batches side by side, GPUs in turn; unset, the law
            decides in the process of the server.
        replicas_on: Where replicas live: in processes of this machine, or as actors on a Ray
            cluster (`pip install ray`).
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
