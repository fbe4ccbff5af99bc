"""What of a server's reply becomes the node's network; what a hostile one sends is an error of one line."""

from ipaddress import IPv6Address, IPv6Interface, ip_address
from typing import Any

import pytest

from talos.api.service_endpoint import Endpoint
from talos.api.siderolink.provision_pb2 import ProvisionResponse
from talos.clusterd.siderolink.provision import ProvisionedLink, check_endpoint, parse_reply
from talos.pki.wireguard import make_private_key, make_public_key

KEY = make_public_key(make_private_key())
NETWORK = "fdae:41e4:649b:9303:"
PEER = "[fdae:41e4:649b:9304::7]:50888"
GOOD: dict[str, Any] = {
    "server_endpoint": ["192.0.2.1:51820", "name.example.org:1", "[2001:db8::1]:2"],
    "server_public_key": KEY,
    "node_address_prefix": f"{NETWORK}:5/64",
    "server_address": f"{NETWORK}:1",
}


def test_a_reply_is_both_ends_of_the_link_with_the_first_and_the_last_endpoint_exchanged() -> None:
    assert parse_reply(ProvisionResponse(**GOOD), has_tunnel=False) == ProvisionedLink(
        node_address=IPv6Interface(f"{NETWORK}:5/64"),
        server_address=IPv6Address(f"{NETWORK}:1"),
        server_key=KEY,
        endpoints=(
            Endpoint(host="2001:db8::1", port=2, is_plain=True),
            Endpoint(host="name.example.org", port=1, is_plain=True),
            Endpoint(host="192.0.2.1", port=51820, is_plain=True),
        ),
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("server_public_key", ""),
        ("server_public_key", KEY[:-4]),
        ("server_public_key", "\n" * 100),
        ("node_address_prefix", "10.0.0.1/8"),
        ("node_address_prefix", f"{NETWORK}:5"),
        ("node_address_prefix", f"{NETWORK}:5/0"),
        ("node_address_prefix", f"{NETWORK}:5/128"),
        ("node_address_prefix", f"{NETWORK}:5/²"),
        ("node_address_prefix", f"{NETWORK}:5/" + "9" * 5000),
        ("node_address_prefix", "fdae:41e4:649b:9302::5/64"),
        ("node_address_prefix", f"{NETWORK}:5%eth0/64"),
        ("server_address", ""),
        ("server_address", "2001:db8::1"),
        ("server_address", f"{NETWORK}:5"),
        ("server_address", "fdae:41e4:aaaa:9303::1"),
        ("server_endpoint", []),
        ("server_endpoint", ["192.0.2.1:1"] * 17),
        ("server_endpoint", ["192.0.2.1"]),
        ("server_endpoint", ["192.0.2.1:0"]),
        ("server_endpoint", ["grpc://192.0.2.1:1"]),
        ("server_endpoint", ["a\nb:1"]),
        ("server_endpoint", ["x" * 5000 + ":1"]),
        ("grpc_peer_addr_port", f"[{NETWORK}:5]:50888"),
    ],
)
def test_what_a_hostile_server_sends(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"server|node_address_prefix") as raised:
        parse_reply(ProvisionResponse(**GOOD | {field: value}), has_tunnel=False)
    assert len(str(raised.value)) < 300
    assert "\n" not in str(raised.value)


def test_a_stream_has_the_name_that_the_server_gave_it() -> None:
    fields: dict[str, Any] = GOOD | {"grpc_peer_addr_port": PEER, "server_endpoint": [PEER]}
    found = parse_reply(ProvisionResponse(**fields), has_tunnel=True)
    assert (found.stream_peer, found.endpoints) == (PEER, ())


@pytest.mark.parametrize(
    "peer", ["", "x", "[fd00::1]", "[fd00::1]:", "[fd00::1]:65536", "[fd00::1%a]:1", "10.0.0.1:1", "[::1]:²"]
)
def test_a_name_that_no_stream_can_have(peer: str) -> None:
    with pytest.raises(ValueError, match="server"):
        parse_reply(ProvisionResponse(**GOOD | {"grpc_peer_addr_port": peer}), has_tunnel=True)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "0.0.0.0", "ff02::1", "224.0.0.1", f"{NETWORK}:1"])
def test_an_endpoint_is_another_machine(address: str) -> None:
    check_endpoint(ip_address("10.0.0.1"))
    with pytest.raises(ValueError, match="no address that the server can have"):
        check_endpoint(ip_address(address))
