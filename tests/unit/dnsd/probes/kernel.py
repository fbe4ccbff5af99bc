"""The network of a test's namespace, and settings of its kernel."""

import time
from collections.abc import Callable
from ipaddress import ip_interface
from pathlib import Path

from tests.harness.peer import Peer

from talos.api.rpc import Call
from talos.system.net.links import AddressState, Links

GROUP = 57
"""dnsd's, which no other program has here."""
CALL = Call(method="", metadata={}, deadline=float("inf"), peer="")
BUSY = 0.1  # seconds
_NODAD = 0x02


def keep_busy[**P](send: Callable[P, None]) -> Callable[P, None]:
    """A function that sends, behind which the process does other work for BUSY."""

    def send_and_work(*arguments: P.args, **named: P.kwargs) -> None:
        send(*arguments, **named)
        time.sleep(BUSY)

    return send_and_work


def set_kernel(key: str, value: str) -> None:
    """A parameter of the thread's network."""
    Path("/proc/sys", *key.split(".")).write_text(value)


async def lay_cable(links: Links, name: str, own: list[str], far: list[str]) -> Peer:
    """Another machine behind a link of that name; addresses are given with their lengths."""
    peer = Peer()
    # Link-local addresses would be tentative for a second.
    set_kernel("net.ipv6.conf.default.accept_dad", "0")
    peer.run(set_kernel, "net.ipv6.conf.default.accept_dad", "0")
    await peer.plug(name, "far", far)
    [index] = [link.index for link in await links.links() if link.name == name]
    await links.set_link(index, up=True)
    for text in own:
        flags = _NODAD if ":" in text else 0
        await links.add_address(AddressState(link_index=index, address=ip_interface(text), flags=flags))
    return peer
