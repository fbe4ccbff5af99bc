"""OpenStack, by answers in the form of its documentation."""

import json
from pathlib import Path

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe_by, load_user_data, show
from tests.unit.machined.platform.clouds.volume import make_volume_source

from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.openstack import CLOUD
from talos.machined.platform.clouds.openstack_network import read_network_data
from talos.system.errors import UserError
from talos.system.mounts import MountPoint

BASE = "http://169.254.169.254"
META = """\
{"uuid": "d8e02d56-2648-49a3-bf97-6be8f1204f38", "availability_zone": "nova",
 "hostname": "test.novalocal", "launch_index": 0, "name": "test",
 "meta": {"priority": "low"}, "project_id": "f7ac731cc11f40efbc03a9f9e1d1d21f"}
"""
NETWORK = """\
{"links": [
  {"id": "tapf7f00564-60", "type": "ovs", "ethernet_mac_address": "02:00:00:00:00:01", "mtu": 1450,
   "vif_id": "f7f00564-60c4-4237-b8fb-cb36bb66458a"},
  {"id": "tap68f096f7-81", "type": "ovs", "ethernet_mac_address": "02:00:00:00:00:02", "mtu": null}],
 "networks": [
  {"id": "network0", "link": "tapf7f00564-60", "type": "ipv4",
   "ip_address": "10.184.0.244", "netmask": "255.255.240.0",
   "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.184.0.1"},
              {"network": "192.168.0.0", "netmask": "255.255.0.0", "gateway": "10.184.0.9"}]},
  {"id": "network1", "link": "tapf7f00564-60", "type": "ipv6",
   "ip_address": "2001:db8::3257:9652", "netmask": "ffff:ffff:ffff:ffff::",
   "routes": [{"network": "::", "netmask": "::", "gateway": "fd00::1"}],
   "services": [{"type": "dns", "address": "2001:db8::53"}]},
  {"id": "network2", "link": "tap68f096f7-81", "type": "ipv4_dhcp"},
  {"id": "network3", "link": "tap68f096f7-81", "type": "ipv6_dhcpv6-stateful"}],
 "services": [{"type": "dns", "address": "8.8.8.8"}]}
"""
SHOWN = [
    "link eth0 mtu 1450",
    "link eth1",
    "address eth0 10.184.0.244/20",
    "address eth0 2001:db8::3257:9652/64",
    "route eth0 default via 10.184.0.1 metric 1024",
    "route eth0 192.168.0.0/16 via 10.184.0.9 metric 1024",
    "route eth0 default via fd00::1 metric 2048",
    "dhcp4 eth1",
    "dhcp6 eth1",
    "resolver 8.8.8.8",
    "resolver 2001:db8::53",
    "external 192.0.2.7",
]
BONDED = """\
{"links": [
  {"id": "vlan0", "type": "vlan", "vlan_link": "bond", "vlan_id": 101,
   "vlan_mac_address": "02:00:00:00:00:0a"},
  {"id": "bond", "type": "bond", "bond_links": ["interface0", "interface1"], "bond_mode": "802.1ad",
   "bond_xmit_hash_policy": "layer3+4", "bond_miimon": 100, "ethernet_mac_address": "02:00:00:00:00:09"},
  {"id": "interface0", "type": "phy", "ethernet_mac_address": "02:00:00:00:00:01", "mtu": 9000},
  {"id": "interface1", "type": "phy", "ethernet_mac_address": "02:00:00:00:00:02", "mtu": 9000}],
 "networks": [{"id": "a", "type": "ipv4", "link": "vlan0",
   "ip_address": "10.1.0.5/24", "gateway": "10.1.0.1"}],
 "services": []}
"""
SERVER = FakeServer(
    {
        f"{BASE}/openstack/latest/user_data": "version: v1alpha1\n",
        f"{BASE}/openstack/latest/meta_data.json": META,
        f"{BASE}/openstack/latest/network_data.json": NETWORK,
        f"{BASE}/latest/meta-data/public-ipv4": "192.0.2.7",
        f"{BASE}/latest/meta-data/instance-type": "m1.small",
    }
)
FILES = {
    "openstack/latest/user_data": "version: v1alpha1\n",
    "openstack/latest/meta_data.json": META,
    "openstack/latest/network_data.json": NETWORK,
    "ec2/latest/meta-data.json": '{"public-ipv4": "192.0.2.7", "instance-type": "m1.small"}',
}


def read(text: str, cards: dict[str, str]) -> NetworkBuilder:
    builder = NetworkBuilder(cards)
    read_network_data(text.encode(), builder)
    return builder


def check(spec: PlatformConfigSpec) -> None:
    assert show(spec) == SHOWN
    metadata = spec.metadata
    assert metadata.provider_id == "openstack:///d8e02d56-2648-49a3-bf97-6be8f1204f38"
    assert (metadata.zone, metadata.instance_type) == ("nova", "m1.small")
    assert metadata.hostname == "test.novalocal"


async def test_what_a_machine_learns_from_the_server(tmp_path: Path) -> None:
    source = await make_volume_source(tmp_path, "", {}, SERVER)
    check(await describe_by(CLOUD, source))
    assert await CLOUD.load_config(source) == b"version: v1alpha1\n"


async def test_what_a_machine_learns_from_its_volume(tmp_path: Path) -> None:
    server = FakeServer({})
    source = await make_volume_source(tmp_path, "config-2", FILES, server)
    check(await describe_by(CLOUD, source))
    assert await CLOUD.load_config(source) == b"version: v1alpha1\n"
    assert server.requests == []


async def test_a_machine_of_which_nothing_is_known(tmp_path: Path) -> None:
    source = await make_volume_source(tmp_path, "config-2", {})
    assert await CLOUD.load_config(source) == b""
    spec = await describe_by(CLOUD, source)
    assert (show(spec), spec.metadata.provider_id) == ([], "")


async def test_the_server_is_called_when_devices_are_not_known(autojump_clock: object) -> None:
    del autojump_clock
    assert await load_user_data(CLOUD, SERVER) == b"version: v1alpha1\n"


async def test_a_seed_for_cloud_init_is_refused(tmp_path: Path) -> None:
    files = {"openstack/latest/user_data": "#cloud-config\n{}\n"}
    with pytest.raises(UserError, match="user_data: this is for cloud-init"):
        await CLOUD.load_config(await make_volume_source(tmp_path, "CONFIG-2", files))


async def test_a_link_of_the_volume_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest/user_data").write_text("of the machine")
    source = await make_volume_source(tmp_path, "config-2", {})
    mount = source.volume.mounts.mount

    def mount_with_link(point: MountPoint) -> None:
        mount(point)
        (Path(point.target) / "openstack").symlink_to(tmp_path)

    monkeypatch.setattr(source.volume.mounts, "mount", mount_with_link)
    assert await CLOUD.load_config(source) == b""


def test_bonds_and_vlans() -> None:
    spec = read(BONDED, {"02:00:00:00:00:01": "eth0", "02:00:00:00:00:02": "eth1"}).spec
    assert show(spec) == [
        "link eth0 mtu 9000",
        "link eth1 mtu 9000",
        "link bond0",
        "link bond0.101",
        "address bond0.101 10.1.0.5/24",
        "route bond0.101 default via 10.1.0.1 metric 1024",
    ]
    links = {link.name: link for link in spec.links}
    bond, vlan = links["bond0"], links["bond0.101"]
    assert (bond.bond_master.mode, bond.bond_master.mii_mon, bond.bond_master.hash_policy) == (4, 100, 1)
    assert [links[name].bond_slave.master_name for name in ("eth0", "eth1")] == ["bond0", "bond0"]
    assert (vlan.parent_name, vlan.vlan.vid, vlan.hardware_address[-1]) == ("bond0", 101, 10)


def test_a_vlan_on_a_card_with_a_long_name() -> None:
    cards = {"02:00:00:00:00:01": "eth0", "02:00:00:00:00:02": "enp0s31f6np0"}
    links = [
        {"id": "card", "type": "phy", "ethernet_mac_address": "02:00:00:00:00:02"},
        {"id": "vlan", "type": "vlan", "vlan_link": "card", "vlan_id": 4094},
    ]
    assert show(read(json.dumps({"links": links}), cards).spec) == [
        "link enp0s31f6np0",
        "link enp06dd0ec.4094",
    ]


def test_a_card_that_is_not_there_yet() -> None:
    builder = read(NETWORK, {"02:00:00:00:00:01": "eth0"})
    assert builder.missing == ["02:00:00:00:00:02"]
    assert "dhcp4 missing1" in show(builder.spec)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"networks": "x"}, "network_data.json: networks"),
        ({"links": [1]}, "network_data.json: links"),
        ({"links": [{"id": [1], "type": "phy"}]}, "id of a link"),
        ({"networks": [{"id": "n", "link": "x", "type": "ipv4"}]}, "no link 'x'"),
        ({"networks": [{"id": "n", "link": "eth0", "type": "x25"}]}, "network 'n': the type 'x25'"),
        ({"networks": [{"link": "eth0", "type": "ipv4", "ip_address": "x/1"}]}, "'x/1'"),
        ({"networks": [{"link": "eth0", "type": "ipv6", "ip_address": "::1", "netmask": "f::f"}]}, "netmask"),
        ({"links": [{"id": "a\ud800\n", "type": "phy"}]}, "a short text"),
        ({"links": [{"id": "b", "type": "vlan", "vlan_link": "a", "vlan_id": 1}]}, "no link 'a'"),
        (
            {"links": [{"id": "a", "type": "phy"}, {"id": "b", "type": "vlan", "vlan_link": "a"}]},
            "network_data.json: link b: VLAN: '' is not between",
        ),
        (
            {"links": [{"id": "b", "type": "bond", "bond_mode": "fast"}]},
            "network_data.json: bonds.bond0: mode",
        ),
        ({"services": [{"type": "dns", "address": "x"}]}, "name server"),
    ],
)
def test_a_mistake_is_named_on_one_line(change: dict[str, object], where: str) -> None:
    document = {"links": [{"id": "eth0", "type": "phy"}], "networks": [], "services": []} | change
    with pytest.raises(UserError, match=where) as caught:
        read(json.dumps(document), {})
    assert str(caught.value).isprintable()
    with pytest.raises(UserError, match=r"network_data\.json: this is no JSON"):
        read("{", {})
