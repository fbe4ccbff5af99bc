"""Roles of a client: whom its certificate, or in maintenance its address, makes it."""

from ipaddress import ip_interface

import pytest
import trio
import trio.testing
from tests.harness.namespace import run_in_namespace
from tests.harness.peer import Peer as Neighbour

from talos.apid import caller
from talos.apid.caller import make_local_metadata, make_peer_metadata, roles_of
from talos.process.run import Daemon
from talos.rpc.protocol import Peer
from talos.system.net.kernel_links import open_links
from talos.system.net.links import AddressState

OURS, MANAGER = "fdae:41e4:649b:9303::2", "fdae:41e4:649b:9303::1"


@pytest.mark.parametrize(
    ("address", "reached", "role"),
    [
        (f"[{MANAGER}]:40000", OURS, "os:admin"),
        ("10.0.0.1:40000", "10.0.0.2", "os:reader"),
        (f"[{MANAGER}]:40000", "fd00::2", "os:reader"),
        ("[fdae:41e4:649b:9302::1]:40000", "fdae:41e4:649b:9302::2", "os:reader"),
        ("[fdae:41e4:aaaa:9303::1]:40000", OURS, "os:reader"),
        ("[2001:41e4:649b:9303::1]:40000", "2001:41e4:649b:9303::2", "os:reader"),
        (f"[{MANAGER}]:40000", "", "os:reader"),
        ("unix:", OURS, "os:reader"),
    ],
)
def test_in_maintenance_the_manager_at_the_other_end_of_siderolink_is_the_administrator(
    monkeypatch: pytest.MonkeyPatch, address: str, reached: str, role: str
) -> None:
    def is_on_link(link: str, *, here: str, there: str) -> bool:
        return link == "siderolink" and here != there

    monkeypatch.setattr(caller, "is_on_link", is_on_link)
    peer = Peer(address=address, reached=reached)
    requested = (("talos-role", "os:admin"),)
    assert roles_of(peer, requested, anonymous=True) == (role,)
    assert roles_of(peer, requested, anonymous=False) == (), "an address is no certificate"


def test_a_password_for_what_lies_between_goes_no_further() -> None:
    """Nodes would write it into their logs."""
    given = (("authorization", "Basic c2VjcmV0"), ("x", "y"))
    peer = Peer(address="10.0.0.1:40000", reached="10.0.0.2")
    for passed_on in (make_local_metadata(given, (), peer), make_peer_metadata(given, (), "a")):
        assert ("x", "y") in passed_on
        assert "authorization" not in dict(passed_on)


def find_roles() -> tuple[str, ...]:
    return roles_of(Peer(address=f"[{MANAGER}]:40000", reached=OURS), (), anonymous=True)


@pytest.mark.parametrize("link", ["siderolink", "eth0"])
@pytest.mark.root
def test_an_address_of_siderolink_on_another_link_is_no_managers(link: str) -> None:
    """A neighbour announces that network, and the machine takes an address of it."""

    async def check(daemon: Daemon) -> None:
        assert find_roles() == ("os:reader",), "there is no such link"
        neighbour = Neighbour()
        await neighbour.plug(link, "far", [f"{MANAGER}/64"])
        other = Neighbour()
        await other.plug("siderolink" if link == "eth0" else "eth0", "far", ["fd00::1/64"])
        async with open_links() as links:
            index = {state.name: state.index for state in await links.links()}
            for name, address in ((link, OURS), ("siderolink" if link == "eth0" else "eth0", "fd00::2")):
                own = ip_interface(f"{address}/64")
                await links.add_address(AddressState(link_index=index[name], address=own, flags=2))
                await links.set_link(index[name], up=True)
            wanted = ("os:admin",) if link == "siderolink" else ("os:reader",)
            while find_roles() != wanted:
                await trio.testing.wait_all_tasks_blocked(0.05)
        neighbour.close()
        other.close()

    run_in_namespace(check)
