"""Configs that would cut off the one who applies them."""

import pytest

from talos.config.change.cut_off import find_cut_offs
from talos.config.read.loader import load

MAIN = "version: v1alpha1\nmachine: {type: worker}\n"
BLOCK = "---\napiVersion: v1alpha1\nkind: NetworkDefaultActionConfig\ningress: block\n"


def rule(ports: str, senders: str, protocol: str = "tcp") -> str:
    return (
        "---\napiVersion: v1alpha1\nkind: NetworkRuleConfig\nname: api\n"
        f"portSelector: {{ports: {ports}, protocol: {protocol}}}\ningress: {senders}\n"
    )


def link(addresses: str) -> str:
    return f"---\napiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\naddresses: {addresses}\n"


OURS, OTHERS = "[{subnet: 192.0.2.0/24}]", "[{subnet: 192.0.2.0/24, except: 192.0.2.7/32}]"
STATIC = "[{address: 10.0.0.5/24}]"
DHCP = "---\napiVersion: v1alpha1\nkind: DHCPv4Config\nname: eth0\n"
FIREWALL, ADDRESS = "the firewall closes the API", "10.0.0.5, which this call has reached"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "", ""),
        ("", BLOCK, FIREWALL),
        (BLOCK, BLOCK, ""),
        ("", BLOCK + rule("[50000]", OURS), ""),
        ("", BLOCK + rule("[49000-50001]", OURS), ""),
        ("", BLOCK + rule("[50001]", OURS), FIREWALL),
        ("", BLOCK + rule("[50000]", OURS, "udp"), FIREWALL),
        ("", BLOCK + rule("[50000]", OTHERS), FIREWALL),
        ("", rule("[50000]", OURS), ""),
        ("", rule("[50000]", OTHERS), FIREWALL),
        ("", rule("[80]", OTHERS), ""),
        (link(STATIC), link("[{address: 10.0.0.6/24}]"), ADDRESS),
        (link(STATIC), link(STATIC), ""),
        (link(STATIC), "", ""),
        ("", link("[{address: 10.0.0.6/24}]"), ADDRESS),
        ("", link("[{address: 10.0.0.6/24}]") + DHCP, ""),
        ("", link(STATIC), ""),
    ],
)
def test_a_config_that_cuts_the_caller_off(before: str, after: str, expected: str) -> None:
    configs = load(MAIN + before), load(MAIN + after)
    found = find_cut_offs(*configs, caller="192.0.2.7", reached="10.0.0.5", link="eth0")
    assert [text.startswith(expected) for text in found] == [True] * bool(expected), found


def test_the_machine_itself_is_never_cut_off() -> None:
    configs = load(MAIN), load(MAIN + BLOCK)
    assert not find_cut_offs(*configs, caller="127.0.0.1", reached="127.0.0.1", link="lo")
    assert not find_cut_offs(*configs, caller="unknown", reached="", link="")
