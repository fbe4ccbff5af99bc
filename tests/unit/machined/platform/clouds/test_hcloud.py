"""Hetzner Cloud, by answers in the form of its documentation."""

import base64

from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.hcloud import BASE, CLOUD

NETWORK = """\
config:
- mac_address: 02:00:00:00:00:01
  name: eth0
  subnets:
  - {dns_nameservers: [185.12.64.1, 185.12.64.2], ipv4: true, type: dhcp}
  - {address: "2a01:4f8::1/64", gateway: "fe80::1", ipv6: true, type: static}
  type: physical
version: 1
"""
SERVER = FakeServer(
    {
        f"{BASE}/metadata/hostname": "node-1",
        f"{BASE}/metadata/instance-id": "4711",
        f"{BASE}/metadata/availability-zone": "fsn1-dc14",
        f"{BASE}/metadata/public-ipv4": "192.0.2.7",
        f"{BASE}/metadata/network-config": NETWORK,
        f"{BASE}/userdata": base64.b64encode(b"version: v1alpha1\n").decode(),
    }
)


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, SERVER)
    assert show(spec) == [
        "link eth0",
        "address eth0 2a01:4f8::1/64",
        "route eth0 default via fe80::1 metric 2048",
        "dhcp4 eth0",
        "resolver 185.12.64.1",
        "resolver 185.12.64.2",
        "external 192.0.2.7",
    ]
    metadata = spec.metadata
    assert (metadata.hostname, metadata.region, metadata.zone) == ("node-1", "fsn1", "fsn1-dc14")
    assert (metadata.instance_id, metadata.provider_id) == ("4711", "hcloud://4711")


async def test_a_machine_of_which_nothing_is_known() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == ([], "")


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, SERVER) == b"version: v1alpha1\n"
    plain = FakeServer({f"{BASE}/userdata": "version: v1alpha1\n"})
    assert await load_user_data(CLOUD, plain) == b"version: v1alpha1\n"
    assert await load_user_data(CLOUD, FakeServer({})) == b""
