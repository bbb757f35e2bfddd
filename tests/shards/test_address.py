"""A RAY_ADDRESS where nobody answers is one line, before Ray would wait for it."""

from __future__ import annotations

import socket

import pytest

from waggle.core.errors import ConfigError
from waggle.shards.cluster import require_answer


def test_an_address_is_told_and_refused_where_nobody_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        require_answer(address)
        assert capsys.readouterr().err == f"connecting to the Ray cluster {address} (RAY_ADDRESS)\n"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # nobody else can listen there, and this one does not
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        told = rf"answers at {address} \(.*refused.*; unset RAY_ADDRESS"
        with pytest.raises(ConfigError, match=told):
            require_answer(address)


@pytest.mark.parametrize("host", ["head..node", "x" * 70])
def test_a_host_that_cannot_be_looked_up_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=r"no Ray cluster answers at .*; unset RAY_ADDRESS"):
        require_answer(f"{host}:6379")


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:port"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="not HOST:PORT; unset RAY_ADDRESS"):
        require_answer(address)


@pytest.mark.parametrize("address", ["", "auto", "local"])
def test_what_ray_looks_up_itself_is_not_tried(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    require_answer(address)
    assert not capsys.readouterr().err
