"""Network settings of the kernel's command line."""

from random import Random

import pytest

from talos.networkd.cmdline import CmdlineNetwork, parse_network
from talos.resource.addresses import parse_interface, parse_ip
from talos.system.proc.cmdline import parse_cmdline


def parse(text: str, first: str = "enp1s0") -> CmdlineNetwork:
    return parse_network(parse_cmdline(text), first)


def summary(network: CmdlineNetwork) -> list[str]:
    config = network.config
    return [
        *(f"link {spec.name}" for spec in config.links),
        *(f"{spec.link_name} {parse_interface(spec.address)}" for spec in config.addresses),
        *(f"{spec.out_link_name} via {parse_ip(spec.gateway)}" for spec in config.routes),
        *(f"dhcp {spec.link_name}" for spec in config.operators),
        *(f"name {spec.hostname}.{spec.domainname}".rstrip(".") for spec in config.hostnames),
        *(f"dns {parse_ip(item)}" for spec in config.resolvers for item in spec.dns_servers),
        *(f"ntp {item}" for spec in config.time_servers for item in spec.ntp_servers),
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ip=dhcp", []),
        ("ip=eth1:dhcp", ["link eth1", "dhcp eth1"]),
        ("ip=10.0.0.2", ["link enp1s0", "enp1s0 10.0.0.2/32"]),
        (
            "ip=172.20.0.2::172.20.0.1:255.255.255.0:node.example.org:eth1:off:1.1.1.1:9.9.9.9:ntp.example.org",
            [
                "link eth1",
                "eth1 172.20.0.2/24",
                "eth1 via 172.20.0.1",
                "name node.example.org",
                "dns 1.1.1.1",
                "dns 9.9.9.9",
                "ntp ntp.example.org",
            ],
        ),
        ("ip=10.0.0.2::10.0.0.1:24", ["link enp1s0", "enp1s0 10.0.0.2/24", "enp1s0 via 10.0.0.1"]),
        (
            "ip=[2001:db8::2]::[2001:db8::1]:64::eth1:::[2001:db8::53]",
            ["link eth1", "eth1 2001:db8::2/64", "eth1 via 2001:db8::1", "dns 2001:db8::53"],
        ),
        (
            "ip=[2001:db8::2]:::[ffff:ffff::]::eth1",
            ["link eth1", "eth1 2001:db8::2/32"],
        ),
        ("ip=::::box::none", ["name box"]),
        ("ip=::::box::none talos.hostname=better.example", ["name better.example"]),
        (
            "ip=10.0.0.2:::24::eth0 ip=10.0.1.2:::24::eth1",
            ["link eth0", "link eth1", "eth0 10.0.0.2/24", "eth1 10.0.1.2/24"],
        ),
        ("vlan=vlan5:enp0s31f6np0", ["link enp06dd0ec.5", "link enp0s31f6np0"]),
        ("vlan=vlan5:eth1 ip=10.0.0.2:::24::vlan5", ["link eth1.5", "link eth1", "eth1.5 10.0.0.2/24"]),
        (
            "bond=bond1:eth1,eth2:mode=802.3ad,miimon=100,xmit_hash_policy=layer3+4:9000",
            ["link bond1", "link eth1", "link eth2"],
        ),
        ("bond=", ["link bond0", "link eth0", "link eth1"]),
    ],
)
def test_what_is_well_formed(text: str, wanted: list[str]) -> None:
    network = parse(text)
    assert network.problems == []
    assert summary(network) == wanted


def test_a_bonds_options() -> None:
    network = parse("bond=b:eth1,eth2:mode=active-backup,primary=eth2,arp_ip_target=10.0.0.1;10.0.0.2:1400")
    bond, first, second = network.config.links
    assert (bond.kind, bond.mtu, bond.bond_master.mode, bond.bond_master.primary) == ("bond", 1400, 1, "eth2")
    assert [str(parse_ip(item)) for item in bond.bond_master.arpip_targets] == ["10.0.0.1", "10.0.0.2"]
    assert (first.bond_slave.master_name, second.bond_slave.slave_index) == ("b", 1)


@pytest.mark.parametrize(
    "argument",
    [
        "ip=10.0.0.300",
        "ip=10.0.0.2::10.0.0.1:255.0.255.0",
        "ip=10.0.0.2::10.0.0.1:33",
        "ip=10.0.0.2::[2001:db8::1]:24",
        "ip=[2001:db8::2::[x]",
        "ip=10.0.0.2:::24::eth0:bootp",
        "ip=10.0.0.2:::24::a/b",
        "ip=10.0.0.2:::24:::off:1:2:3:4:5",
        "ip=:::::dhcp",
        "ip=",
        "ip=224.0.0.1",
        "ip=10.0.0.2:::24:bad_name",
        "vlan=eth0",
        "vlan=foo:eth0",
        "vlan=vlan0:eth0",
        "vlan=vlan4096:eth0",
        "bond=b:eth0,eth0",
        "bond=b:eth0:mode=fast",
        "bond=b:eth0:color=red",
        "bond=b:eth0:mode",
        "bond=b:eth0:miimon=-1",
        "bond=b:eth0:mode=1:20",
        "bond=b:eth0:arp_ip_target=x",
        "talos.hostname=a_b",
    ],
)
def test_what_is_malformed_is_named_and_ignored(argument: str) -> None:
    network = parse(f"{argument} ip=10.9.9.9:::24::good")
    assert len(network.problems) == 1
    assert network.problems[0].startswith(f"{argument} ignored: ")
    assert "good 10.9.9.9/24" in summary(network)


def test_links_to_leave_alone() -> None:
    text = "talos.network.interface.ignore=eth3 talos.network.interface.ignore=eth4"
    assert parse(text).ignored == {"eth3", "eth4"}


@pytest.mark.parametrize("seed", range(300))
def test_any_text_is_read_or_named(seed: int) -> None:
    random = Random(seed)
    pieces = ["ip=", "bond=", "vlan=", ":", "[", "]", ",", "=", ";", ".", "eth0", "10.0.0.1", "dhcp", "64"]
    pieces += [
        "mode",
        "2001:db8::1",
        "vlan7",
        "9" * 30,
        "é",
        "/",
        "%",
        "\x7f",
        "off",
        "255.255.0.0",
        " ",
        "²",
    ]
    text = "".join(random.choice(pieces) for _ in range(random.randrange(30)))
    for prefix in ("ip=", "bond=", "vlan=", "talos.hostname="):
        network = parse(prefix + text)
        for spec in network.config.links:
            assert 0 < len(spec.name) <= 15
