"""A server's run as a program: until a signal, or a mistake of the operator's."""

import asyncio
import os
import signal
from typing import override

import pytest

from talos.serving.program import Server, make_parser, read_endpoint, run_server
from talos.system.errors import UserError


class Recorder(Server):
    """Ends by SIGTERM as soon as it is waited for."""

    def __init__(self, mistake: str = "") -> None:
        self.mistake, self.calls = mistake, list[str]()

    @override
    async def start(self) -> None:
        self.calls.append("start")
        if self.mistake:
            raise UserError(self.mistake, where="address [::]:1")
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)

    @override
    async def stop(self) -> None:
        self.calls.append("stop")

    @override
    def describe(self) -> dict[str, object]:
        return {"port": 1, "tls": False}


def test_it_runs_until_a_signal(capsys: pytest.CaptureFixture[str]) -> None:
    server = Recorder()
    assert run_server("kms", lambda _: server) == 0
    assert server.calls == ["start", "stop"]
    written = capsys.readouterr()
    assert "listening" in written.out + written.err


def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_server("kms", lambda _: Recorder("can't listen")) == 1
    assert capsys.readouterr().err == "error: address [::]:1: can't listen\n"


def test_the_flag_of_the_key_has_two_names() -> None:
    for flag in ("--key", "--cert-key"):
        options = make_parser("kms", "", "", 4050, key_flag=flag).parse_args([flag, "k"])
        with pytest.raises(UserError, match=f"--cert, {flag}: belong together"):
            read_endpoint(options, 4050, key_flag=flag)
    endpoint = read_endpoint(make_parser("kms", "", "", 4050).parse_args([]), 4050)
    assert (endpoint.host, endpoint.port, endpoint.tls) == ("", 4050, None)
