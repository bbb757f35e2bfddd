"""`waggle serve`: a law over an OpenAI-compatible API."""

from __future__ import annotations

import ipaddress

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
    public: Flag = False,
) -> None:
    """Serve a law over an OpenAI-compatible API.

    `waggle run` and `waggle eval` reach it as law `chat` with `--law.base-url http://HOST:PORT/v1`,
    and may list their views in any order: a law of canonical order gets canonical views. The server
    asks for no key and listens on this machine only, unless `--public` is given. Needs the extra
    `serve`. Example:

    `waggle serve --law nano --port 8000`

    Args:
        law: A name of `waggle list laws` or a law's folder. Its own options follow as
            `--law.KEY VALUE`.
        host: Address to listen on.
        port: Port to listen on.
        max_queue: Requests that may wait; more are answered with 429.
        max_batch: The most requests in one batch.
        public: Allow an address that other machines can reach; use it on trusted networks only.
    """
    _guard(host, port, max_queue, max_batch, public)
    try:
        import uvicorn

        from waggle.compat.openai_server import app
    except ImportError as error:
        raise ConfigError(
            f"serving needs starlette and uvicorn; install them with `{install('serve')}`"
        ) from error
    source = options.make_law(law, law_options)
    # Weights that are missing are better found out now than by the first client.
    getattr(source, "load", lambda: None)()
    console.note(f"serving {law} on http://{host}:{port}/v1; stop with Ctrl-C")
    server = app(source, max_queue=max_queue, max_batch=max_batch)
    uvicorn.run(server, host=host, port=port, log_level="warning")


def _guard(host: str, port: int, max_queue: int, max_batch: int, public: bool) -> None:
    if not 1 <= port <= 65_535:
        raise ConfigError(f"--port must be 1 to 65535, not {port}")
    if not 1 <= max_batch <= 4096 or not 1 <= max_queue <= 65_536:
        raise ConfigError("--max-batch must be 1 to 4096 and --max-queue 1 to 65536")
    if not public and not _loopback(host):
        raise ConfigError(f"--host {host} can be reached from outside; add --public to allow it")


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
