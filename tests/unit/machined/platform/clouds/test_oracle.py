"""Oracle Cloud Infrastructure, by answers in the form of its documentation."""

import base64

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.oracle import BASE, CLOUD
from talos.system.errors import UserError

INSTANCE = """\
{
  "availabilityDomain": "Uocm:PHX-AD-1",
  "faultDomain": "FAULT-DOMAIN-1",
  "compartmentId": "ocid1.tenancy.oc1..example",
  "displayName": "my-instance",
  "hostname": "node-1",
  "id": "ocid1.instance.oc1.phx.example",
  "image": "ocid1.image.oc1.phx.example",
  "metadata": {"ssh_authorized_keys": "example"},
  "region": "phx",
  "canonicalRegionName": "us-phoenix-1",
  "ociAdName": "phx-ad-1",
  "shape": "VM.Standard.E3.Flex",
  "shapeConfig": {"ocpus": 1.0, "memoryInGBs": 16.0},
  "state": "Running",
  "timeCreated": 1600381928581
}
"""
CARDS = """\
[{
  "vnicId": "ocid1.vnic.oc1.phx.example",
  "privateIp": "10.0.3.6",
  "vlanTag": 11,
  "macAddr": "02:00:00:00:00:01",
  "virtualRouterIp": "10.0.3.1",
  "subnetCidrBlock": "10.0.3.0/24",
  "ipv6SubnetCidrBlock": "2603:a:b:c::/64",
  "ipv6VirtualRouterIp": "fe80::a:b:c:d",
  "ipv6Addresses": ["2603:a:b:c::1234"]
}, {
  "vnicId": "ocid1.vnic.oc1.phx.other",
  "privateIp": "10.0.4.3",
  "vlanTag": 12,
  "macAddr": "02:00:00:00:00:02",
  "virtualRouterIp": "10.0.4.1",
  "subnetCidrBlock": "10.0.4.0/24"
}]
"""


def make_server(**more: str) -> FakeServer:
    return FakeServer(
        {
            f"{BASE}/instance/": INSTANCE,
            f"{BASE}/vnics/": CARDS,
            f"{BASE}/instance/metadata/user_data": base64.b64encode(b"version: v1alpha1\n").decode(),
        }
        | more,
        headers={"Authorization": "Bearer Oracle"},
    )


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, make_server())
    assert show(spec) == [
        "link eth0",
        "link eth1",
        "route eth0 default via fe80::a:b:c:d metric 2048",
        "dhcp4 eth0",
        "dhcp6 eth0",
        "dhcp4 eth1",
        "resolver 169.254.169.254",
        "time 169.254.169.254",
    ]
    metadata = spec.metadata
    assert metadata.provider_id == "oci://ocid1.instance.oc1.phx.example"
    assert metadata.instance_id == "ocid1.instance.oc1.phx.example"
    assert (metadata.hostname, metadata.region, metadata.zone) == ("node-1", "phx", "PHX-AD-1")
    assert metadata.instance_type == "VM.Standard.E3.Flex"


async def test_parts_that_are_missing() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert show(spec) == ["resolver 169.254.169.254", "time 169.254.169.254"]
    assert (spec.metadata.provider_id, len(spec.hostnames)) == ("", 0)


@pytest.mark.parametrize(
    ("part", "text", "where"),
    [
        ("instance/", "<html>", "instance/: this is no JSON"),
        ("instance/", '{"id": ["x"]}', "instance/.id: a short text"),
        ("vnics/", '["x"]', r"vnics/\[0\]: a mapping"),
        ("vnics/", '[{"ipv6VirtualRouterIp": "x", "ipv6SubnetCidrBlock": "y"}]', r"vnics/\[0\]: route"),
    ],
)
async def test_a_mistake_is_named_on_one_line(part: str, text: str, where: str) -> None:
    with pytest.raises(UserError, match=where) as caught:
        await describe(CLOUD, make_server(**{f"{BASE}/{part}": text}))
    assert str(caught.value).isprintable()


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, make_server()) == b"version: v1alpha1\n"
    assert await load_user_data(CLOUD, FakeServer({})) == b""
