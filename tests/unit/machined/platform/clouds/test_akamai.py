"""Akamai's cloud, by answers in the form of its documentation."""

import base64

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.akamai import BASE, CLOUD
from talos.system.errors import UserError

TOKEN = "e80eb80986f17fcd3df8fcb6ea944774"
INSTANCE = """\
{
  "id": 123456,
  "host_uuid": "a631b16d14534d84e2830da16d1b28d2",
  "label": "node-1",
  "region": "us-iad",
  "type": "g6-standard-1",
  "tags": ["prod", "web"],
  "specs": {"vcpus": 1, "memory": 2048, "gpus": 0, "transfer": 2000, "disk": 51200},
  "backups": {"enabled": false, "status": null}
}
"""
NETWORK = """\
{
  "interfaces": [],
  "ipv4": {"public": ["192.0.2.24/32"], "private": ["192.168.133.234/32"], "shared": []},
  "ipv6": {
    "slaac": "2600:3c06::f03c:93ff:fe6e:5cd9/128",
    "ranges": ["2600:3c05:d011:797::/64"],
    "link_local": "fe80::f03c:93ff:fe6e:5cd9/128",
    "shared_ranges": []
  }
}
"""


def make_server(**more: str) -> FakeServer:
    return FakeServer(
        {
            f"{BASE}/instance": INSTANCE,
            f"{BASE}/network": NETWORK,
            f"{BASE}/user-data": base64.b64encode(b"version: v1alpha1\n").decode(),
        }
        | more,
        tokens={f"{BASE}/token": TOKEN},
        headers={"Metadata-Token": TOKEN},
    )


async def test_what_a_machine_learns() -> None:
    server = make_server()
    spec = await describe(CLOUD, server)
    assert show(spec) == [
        "link eth0",
        "address eth0 192.0.2.24/32",
        "address eth0 192.168.133.234/32",
        "address eth0 2600:3c05:d011:797::/64",
        "route eth0 default via fe80::1 metric 2048",
        "dhcp4 eth0",
        "external 192.0.2.24",
        "external 2600:3c05:d011:797::",
    ]
    metadata = spec.metadata
    assert (metadata.instance_id, metadata.provider_id) == ("123456", "linode://123456")
    assert (metadata.hostname, metadata.region) == ("node-1", "us-iad")
    assert (metadata.instance_type, dict(metadata.tags)) == ("g6-standard-1", {"prod": "", "web": ""})
    token, *parts = server.requests
    assert token.headers == {"Metadata-Token-Expiry-Seconds": "3600"}
    assert {part.headers["Accept"] for part in parts} == {"application/json"}


async def test_a_machine_without_ipv6() -> None:
    network = '{"ipv4": {"public": ["192.0.2.24/32"], "private": [], "shared": []}, "ipv6": null}'
    spec = await describe(CLOUD, make_server(**{f"{BASE}/network": network}))
    assert show(spec) == ["link eth0", "address eth0 192.0.2.24/32", "dhcp4 eth0", "external 192.0.2.24"]


async def test_parts_that_are_missing() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == ([], "")


@pytest.mark.parametrize(
    ("part", "text", "where"),
    [
        ("network", "ipv4.public: 192.0.2.24/32", "network: this is no JSON"),
        ("network", '{"ipv4": {"public": ["x"]}}', "network.ipv4: address 'x'"),
        ("network", '{"ipv6": {"link_local": "x/128"}}', "network.ipv6: route"),
        ("instance", '{"id": true}', "instance.id: a short text"),
        ("instance", '{"label": "a b"}', "instance: 'a b' is no host name"),
        ("instance", '{"tags": [{}]}', "instance.tags: a short text"),
    ],
)
async def test_a_mistake_is_named_on_one_line(part: str, text: str, where: str) -> None:
    with pytest.raises(UserError, match=where) as caught:
        await describe(CLOUD, make_server(**{f"{BASE}/{part}": text}))
    assert str(caught.value).isprintable()


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, make_server()) == b"version: v1alpha1\n"
    assert await load_user_data(CLOUD, FakeServer({})) == b""
