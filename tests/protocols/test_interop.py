"""gRPC's interop suite, not of this project: its client against our server, its server against our client.

What it may not pass is a table of docs/conformance.md: a case more or less is a failure.
"""

import asyncio
import os
import re
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.rpc.http2.backend import ASYNCIO
from talos.rpc.http2.server import LocalServer
from talos.rpc.http2.server_call import ServerCall
from talos.rpc.limits import MAX_MESSAGE
from talos.rpc.port.listener import TlsListener
from talos.rpc.port.remote import ClientTls, RemoteChannel, RemoteServer, make_client_context
from talos.rpc.port.tls import TlsSettings, make_context
from talos.system.logging import Log

from .interop_client import CASES
from .service import answer

CLIENT, SERVER = os.environ.get("INTEROP_CLIENT", ""), os.environ.get("INTEROP_SERVER", "")
PAGE = Path(__file__).parents[2] / "docs/conformance.md"
TIMEOUT = 60
"""Seconds of one case, on a busy machine, too."""
MAX_REQUEST = 1 << 20
"""Bytes that the suite's methods may be sent at a port, as a row in ``api/requests.tsv`` would have it."""
UNLISTED = {"channel_soak", "rpc_soak"}
"""Cases that the client's help does not name."""

pytestmark = pytest.mark.skipif(not (CLIENT and SERVER), reason="no INTEROP_CLIENT: make protocols")


def read_exceptions(door: str) -> set[str]:
    """The cases that don't hold at a door by the document, or at any."""
    rows = ([cell.strip(" `") for cell in line.split("|")] for line in PAGE.read_text().splitlines())
    return {row[1] for row in rows if len(row) == 5 and row[2] in {door, "both"}}


def find_cases() -> set[str]:
    """All cases that the client has."""
    shown = subprocess.run([CLIENT, "-help"], capture_output=True, text=True, check=False)
    cases = set(re.findall(r"^\s+([a-z0-9_]+) ?: ", shown.stdout + shown.stderr, re.MULTILINE))
    assert set(CASES) < cases
    return cases | UNLISTED


async def run_client(case: str, *arguments: str) -> str:
    """What the client prints of a case that it does not pass, else nothing."""
    process = await asyncio.create_subprocess_exec(
        CLIENT,
        f"-test_case={case}",
        "-soak_per_iteration_max_acceptable_latency_ms=10000",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return f"no end after {TIMEOUT} s"
    return f"{output.decode()[-1000:]} (code {process.returncode})" if process.returncode else ""


async def find_failures(*arguments: str) -> dict[str, str]:
    """What is printed of each case that does not pass."""
    found = {case: await run_client(case, *arguments) for case in sorted(find_cases())}
    return {case: text for case, text in found.items() if text}


def check(refused: dict[str, str], door: str) -> None:
    """Compare what does not pass with the document."""
    expected = read_exceptions(door)
    unexpected = "\n".join(f"{case}: {refused[case]}" for case in sorted(refused.keys() - expected))
    assert sorted(refused) == sorted(expected), unexpected


def make_server_tls() -> tuple[CertificateAuthority, TlsSettings]:
    ca = CertificateAuthority.generate(KeyType.P256)
    pair = ca.issue(common_name="node", ips=["127.0.0.1"], usages=Usage.SERVER)
    return ca, TlsSettings(certificate=pair.crt, key=pair.key)


def test_client_at_a_unix_socket(tmp_path: Path) -> None:
    async def main() -> dict[str, str]:
        loop = asyncio.get_running_loop()

        async def run(call: ServerCall) -> None:
            call.finish(await answer(call))

        def begin(call: ServerCall) -> None:
            call.cancel = loop.create_task(run(call)).cancel

        server = LocalServer(begin, ASYNCIO, lambda _: MAX_MESSAGE, Log(write=print))
        await server.start(tmp_path / "socket")
        try:
            return await find_failures(f"-server_host=unix://{tmp_path}/socket", "-server_port=0")
        finally:
            await server.stop(0)

    check(asyncio.run(main()), "socket")


def test_client_at_a_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def max_request(_path: str) -> int:
        return MAX_REQUEST

    monkeypatch.setattr("talos.rpc.port.call.max_request", max_request)

    async def main() -> dict[str, str]:
        ca, settings = make_server_tls()
        (tmp_path / "ca.pem").write_bytes(ca.pem.crt)
        context = make_context(settings)
        listener = TlsListener(answer, context=lambda: context, log=Log(write=print))
        port = listener.start(0, "127.0.0.1")
        tls = ("-use_tls", "-use_test_ca", f"-ca_file={tmp_path}/ca.pem")
        try:
            return await find_failures("-server_host=127.0.0.1", f"-server_port={port}", *tls)
        finally:
            await listener.stop(0)

    check(asyncio.run(main()), "port")


@asynccontextmanager
async def interop_server(*arguments: str) -> AsyncGenerator[int]:
    """Run the suite's server; gives its port when it listens."""
    with socket.create_server(("", 0)) as free:
        port = int(free.getsockname()[1])
    process = await asyncio.create_subprocess_exec(SERVER, f"-port={port}", *arguments)
    try:
        async with asyncio.timeout(TIMEOUT):
            while not await listens(port):
                assert process.returncode is None, f"the server ended with {process.returncode}"
        yield port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.transport.abort()
    return True


@pytest.mark.parametrize("encrypted", [False, True])
def test_server(tmp_path: Path, *, encrypted: bool) -> None:
    """Every case of the suite that our client can run holds; there is no table of exceptions."""

    async def main() -> None:
        ca, settings = make_server_tls()
        names = {"tls_cert_file": settings.certificate, "tls_key_file": settings.key}
        for name, pem in names.items():
            (tmp_path / name).write_bytes(pem)
        flags = ["-use_tls", *(f"-{name}={tmp_path / name}" for name in names)] if encrypted else []
        context = make_client_context(ClientTls(authorities=(ca.crt,))) if encrypted else None
        async with interop_server(*flags) as port:
            for name, case in CASES.items():
                channel = RemoteChannel(RemoteServer(host="127.0.0.1", port=port, context=context), ASYNCIO)
                try:
                    async with asyncio.timeout(TIMEOUT):
                        await case(channel)
                except (AssertionError, TimeoutError) as error:
                    raise AssertionError(f"{name}: {error}") from error
                finally:
                    channel.close()

    asyncio.run(main())
