"""The network that a platform hands over."""

import pytest
from tests.unit.machined.platform.clouds.cloud import show

from talos.machined.platform.network import parse_network
from talos.system.errors import UserError


def test_links_have_a_gateway_of_either_family() -> None:
    text = """\
links:
- {name: eth0, addresses: [10.5.0.2/24], gateway: 10.5.0.1}
- {name: eth1, addresses: ['fd00::2/64'], gateway: 'fd00::1'}
"""
    assert show(parse_network(text, "", platform="container")) == [
        "link eth0",
        "link eth1",
        "address eth0 10.5.0.2/24",
        "address eth1 fd00::2/64",
        "route eth0 default via 10.5.0.1 metric 1024",
        "route eth1 default via fd00::1 metric 2048",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("links: [{addresses: [x]}]", "name of a link"),
        ("links: [{name: a, addresses: [x]}]", "link a: address 'x'"),
        ("links: [{name: a, mtu: big}]", "link a: mtu"),
        ("hostname: '-/-'", "no host name"),
        ("- a", "a mapping"),
    ],
)
def test_bad_network_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UserError, match=rf"network\.yaml.*{reason}"):
        parse_network(text, "", platform="container")
