"""The DHCP client on a real wire against a real server, dnsmasq, in a network namespace."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from pyroute2 import AsyncIPRoute
from tests.harness.forked import run_forked
from tests.harness.limits import REAL_TIMEOUT
from tests.harness.namespace import unshare_network
from tests.harness.peers import find_peer

from talos.networkd.dhcp.client import Client
from talos.networkd.dhcp.lease import Lease
from talos.networkd.dhcp.wire import open_packets
from talos.system.logging import Log

pytestmark = pytest.mark.root

OPTIONS = """\
interface=server
bind-interfaces
port=0
dhcp-range=10.77.0.10,10.77.0.20,255.255.255.0,2m
dhcp-option=option:router,10.77.0.1
dhcp-option=option:dns-server,10.77.0.53
dhcp-option=option:ntp-server,10.77.0.123
dhcp-option=option:mtu,1400
dhcp-option=option:classless-static-route,0.0.0.0/0,10.77.0.1,192.0.2.0/24,10.77.0.9
domain=example.org
dhcp-host=02:00:00:00:77:02,node-7
dhcp-authoritative
keep-in-foreground
log-facility=-
user=root
group=root
"""


async def make_wires() -> None:
    """Two ends of a cable, up."""
    async with AsyncIPRoute() as opened:
        route: Any = opened
        await route.link(
            "add",
            ifname="client",
            kind="veth",
            address="02:00:00:00:77:02",
            peer={"ifname": "server", "address": "02:00:00:00:77:01"},
        )
        for name in ("client", "server", "lo"):
            [index] = await route.link_lookup(ifname=name)
            if name == "server":
                await route.addr("add", index=index, address="10.77.0.1", prefixlen=24)
            await route.link("set", index=index, state="up")


@asynccontextmanager
async def dnsmasq(folder: Path) -> AsyncGenerator[trio.Process]:
    """The server, ended with the test."""
    config = folder / "dnsmasq.conf"
    config.write_text(f"{OPTIONS}dhcp-leasefile={folder}/leases\npid-file={folder}/pid\n")
    async with trio.open_nursery() as nursery:
        process = await nursery.start(trio.run_process, [*find_peer("dnsmasq"), f"--conf-file={config}"])
        try:
            yield process
        finally:
            nursery.cancel_scope.cancel()


def test_a_lease_of_dnsmasq(tmp_path: Path) -> None:
    def get_one() -> None:
        unshare_network()
        asyncio.run(make_wires())
        trio.run(get_lease, tmp_path)

    run_forked(get_one, timeout=2 * REAL_TIMEOUT)


async def get_lease(folder: Path) -> None:
    """Get a lease, have it confirmed, and check its contents."""
    leases, receive = trio.open_memory_channel[Lease | None](10)

    with trio.fail_after(REAL_TIMEOUT):
        async with dnsmasq(folder), open_packets("client") as wire, trio.open_nursery() as nursery:
            client = Client(
                link="client",
                wire=wire,
                hardware_address=bytes.fromhex("020000007702"),
                report=lambda lease: leases.send(lease),
                log=Log(),
                identifier=(1, bytes.fromhex("020000007702")),
            )
            nursery.start_soon(client.run)
            lease = await receive.receive()
            assert lease is not None
            assert str(lease.address.network) == "10.77.0.0/24"
            assert (lease.seconds, lease.mtu) == (120, 1400)
            assert [str(route.destination) for route in lease.routes] == ["0.0.0.0/0", "192.0.2.0/24"]
            assert [str(server) for server in (*lease.resolvers, *lease.time_servers)] == [
                "10.77.0.53",
                "10.77.0.123",
            ]
            assert (lease.hostname, lease.domain) == ("node-7", "example.org")
            client.check()
            await trio.sleep(1)
            assert (folder / "leases").read_text().split()[2] == str(lease.address.ip)
            nursery.cancel_scope.cancel()
