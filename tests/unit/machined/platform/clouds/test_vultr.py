"""Vultr, by answers in the form of its documentation."""

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.vultr import CLOUD
from talos.system.errors import UserError

BASE = "http://169.254.169.254"
INDEX = """\
{
  "bgp": {"ipv4": {"my-address": "", "my-asn": "", "peer-address": "", "peer-asn": ""}},
  "hostname": "node-1",
  "instance-v2-id": "36e9cf60-5d93-4e31-8ebf-613b3d2874fb",
  "instanceid": "a747bfz6385e",
  "interfaces": [{
    "ipv4": {"additional": [], "address": "192.0.2.2", "gateway": "192.0.2.1", "netmask": "255.255.254.0"},
    "ipv6": {"additional": [], "address": "2001:db8:0:1::1910", "network": "2001:db8:0:1::", "prefix": "64"},
    "mac": "02:00:00:00:00:01",
    "network-type": "public"
  }, {
    "ipv4": {"additional": [], "address": "10.7.96.3", "gateway": "", "netmask": "255.255.240.0"},
    "ipv6": {"additional": [], "network": "", "prefix": ""},
    "mac": "02:00:00:00:00:02",
    "network-type": "private",
    "network-v2-id": "fbbe2b5b-b986-4396-87f5-7246660ccb64",
    "networkid": "net5e7155329d730"
  }],
  "public-keys": ["ssh-ed25519"],
  "region": {"countrycode": "US", "regioncode": "EWR"},
  "user-defined": []
}
"""


def make_server(index: str = INDEX) -> FakeServer:
    return FakeServer({f"{BASE}/latest/user-data": "version: v1alpha1\n", f"{BASE}/v1.json": index})


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, make_server())
    assert show(spec) == [
        "link eth0",
        "link eth1 mtu 1450",
        "address eth0 192.0.2.2/23",
        "address eth1 10.7.96.3/20",
        "route eth0 default via 192.0.2.1 metric 1024",
        "external 192.0.2.2",
        "external 2001:db8:0:1::1910",
    ]
    metadata = spec.metadata
    assert metadata.instance_id == "36e9cf60-5d93-4e31-8ebf-613b3d2874fb"
    assert metadata.provider_id == "vultr://36e9cf60-5d93-4e31-8ebf-613b3d2874fb"
    assert (metadata.hostname, metadata.region) == ("node-1", "EWR")


async def test_cards_are_found_by_their_hardware_addresses() -> None:
    cards = {"02:00:00:00:00:02": "eth0", "02:00:00:00:00:01": "eth1"}
    spec = await describe(CLOUD, make_server(), cards)
    assert "address eth1 192.0.2.2/23" in show(spec)


async def test_a_card_without_an_address_requests_one() -> None:
    spec = await describe(CLOUD, make_server('{"interfaces": [{"network-type": "public"}]}'))
    assert show(spec) == ["link eth0", "dhcp4 eth0"]


async def test_parts_that_are_missing() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == ([], "")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[", "v1.json: this is no JSON"),
        ("[1]", "v1.json: a mapping"),
        ('{"interfaces": [{"ipv4": {"address": "192.0.2.2"}}]}', r"interfaces\[0\]: address '192.0.2.2/'"),
        ('{"region": "EWR"}', "v1.json.region: a mapping"),
    ],
)
async def test_a_mistake_is_named_on_one_line(text: str, where: str) -> None:
    with pytest.raises(UserError, match=where) as caught:
        await describe(CLOUD, make_server(text))
    assert str(caught.value).isprintable()


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, make_server()) == b"version: v1alpha1\n"
    assert await load_user_data(CLOUD, FakeServer({})) == b""
