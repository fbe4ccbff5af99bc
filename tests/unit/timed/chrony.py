"""chrony serving time in a test's network: it shows the machine's clock and never sets it."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import trio
from tests.harness.namespace import start_loopback
from tests.harness.peers import find_peer

from talos.api.rpc import RpcError
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType
from talos.process.run import Daemon
from talos.system.net.kernel_links import open_links
from talos.timed.ntp.client import query

NAME = "localhost"


def make_certificates(folder: Path) -> CertificateAuthority:
    """The authority, whose certificate is ca.crt, and server.crt and server.key for the key exchange."""
    ca = CertificateAuthority.generate(KeyType.P256, organizations=["time"])
    pair = ca.issue(dns_names=[NAME], usages=Usage.SERVER)
    for name, data in (("ca.crt", ca.crt), ("server.crt", pair.crt), ("server.key", pair.key)):
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)
    return ca


@asynccontextmanager
async def chrony(daemon: Daemon, folder: Path, *lines: str) -> AsyncGenerator[None]:
    """A server on 127.0.0.1, ended with the test; ``lines`` go to its configuration."""
    async with open_links() as links:
        await start_loopback(links)
    settings = (
        "local stratum 1",
        "allow all",
        "cmdport 0",
        "bindcmdaddress /",
        "bindaddress 127.0.0.1",
        f"pidfile {folder}/pid",
        f"ntsdumpdir {folder}",
        *lines,
    )
    config = folder / "chrony.conf"
    config.write_text("\n".join([*settings, ""]))
    argv = [*find_peer("chronyd"), "-x", "-d", "-u", "root", "-f", str(config)]
    with (folder / "log").open("wb") as log:
        async with trio.open_nursery() as nursery:
            # check: a server that ends by itself ends the test, too.
            await nursery.start(partial(trio.run_process, argv, stdout=log, stderr=log))
            await wait_until_it_answers(folder)
            yield
            nursery.cancel_scope.cancel()


async def wait_until_it_answers(folder: Path) -> None:
    """Both ports are open when the first request for the time is answered: chrony opens that port last."""
    with trio.move_on_after(20):
        while True:
            with suppress(RpcError):
                await query("127.0.0.1", time.time, max_wait=0.2)
                return
    raise AssertionError(f"chrony does not answer:\n{(folder / 'log').read_text()}")
