"""Roles of a client: whom its certificate, or in maintenance its address, makes it."""

import pytest

from talos.apid.caller import roles_of
from talos.rpc.proxy.raw import Peer

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
    address: str, reached: str, role: str
) -> None:
    peer = Peer(address=address, reached=reached)
    asked = (("talos-role", "os:admin"),)
    assert roles_of(peer, asked, anonymous=True) == (role,)
    assert roles_of(peer, asked, anonymous=False) == (), "an address is no certificate"
