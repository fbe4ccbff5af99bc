"""UpCloud, by answers in the form of its documentation."""

import json

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.upcloud import BASE, CLOUD
from talos.system.errors import UserError

METADATA = """\
{"cloud_name": "upcloud", "instance_id": "00322b68-0096-4042-9406-faad61922128",
 "hostname": "test.example.com", "platform": "servers", "public_keys": [], "region": "fi-hel2",
 "network": {"dns": ["94.237.127.9", "94.237.40.9"], "interfaces": [
  {"index": 1, "mac": "02:00:00:00:00:01", "type": "public", "ip_addresses": [
    {"address": "94.237.105.53", "dhcp": true, "dns": ["94.237.127.9"], "family": "IPv4", "floating": false,
     "gateway": "94.237.104.1", "network": "94.237.104.0/22"},
    {"address": "94.237.105.50", "dhcp": false, "dns": null, "family": "IPv4", "floating": true,
     "gateway": "", "network": "94.237.105.50/32"}]},
  {"index": 2, "mac": "02:00:00:00:00:02", "type": "private", "ip_addresses": [
    {"address": "2a04:3545::63e7", "dhcp": true, "family": "IPv6", "gateway": "2a04:3545::1",
     "network": "2a04:3545::/64"},
    {"address": "172.30.1.10", "dhcp": false, "family": "IPv4", "gateway": "172.30.1.1",
     "network": "172.30.1.0/24"}]}]},
 "tags": [], "user_data": "", "vendor_data": ""}
"""
SERVER = FakeServer({f"{BASE}/v1.json": METADATA, f"{BASE}/v1/user_data": "version: v1alpha1\n"})


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, SERVER)
    assert show(spec) == [
        "link eth0",
        "link eth1",
        "address eth0 94.237.105.50/32",
        "address eth1 172.30.1.10/24",
        "route eth1 default via 172.30.1.1 metric 1024",
        "dhcp4 eth0",
        "resolver 94.237.127.9",
        "resolver 94.237.40.9",
    ]
    metadata = spec.metadata
    assert (metadata.hostname, metadata.region, metadata.zone) == ("test.example.com", "", "fi-hel2")
    assert metadata.provider_id == "upcloud://00322b68-0096-4042-9406-faad61922128"


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, SERVER) == b"version: v1alpha1\n"
    assert await load_user_data(CLOUD, FakeServer({})) == b""


async def test_nothing_is_known() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == ([], "")


@pytest.mark.parametrize(
    ("network", "where"),
    [
        (1, "network: a mapping"),
        ({"interfaces": ["x"]}, "interfaces: a mapping"),
        ({"interfaces": [{"index": 0}]}, "index of an interface"),
        (
            {"interfaces": [{"index": 3, "ip_addresses": [{"address": "10.0.0.1"}]}]},
            r"interface 3.*'10\.0\.0\.1/'",
        ),
        ({"interfaces": [{"index": 1}] * 2000}, "interfaces: more than 1024"),
        ({"dns": [1.5]}, "dns: name server"),
    ],
)
async def test_a_mistake_is_named_on_one_line(network: object, where: str) -> None:
    server = FakeServer({f"{BASE}/v1.json": json.dumps({"network": network})})
    with pytest.raises(UserError, match=rf"v1\.json: {where}") as caught:
        await describe(CLOUD, server)
    assert str(caught.value).isprintable()
