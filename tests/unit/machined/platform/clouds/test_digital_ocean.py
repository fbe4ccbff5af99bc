"""DigitalOcean, by answers in the form of its documentation."""

import json

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.digital_ocean import BASE, CLOUD
from talos.system.errors import UserError

METADATA = """\
{"droplet_id": 2756294, "hostname": "sample-droplet", "vendor_data": "#cloud-config\\n", "region": "nyc3",
 "public_keys": [], "interfaces": {
  "private": [{"ipv4": {"ip_address": "10.132.255.113", "netmask": "255.255.0.0", "gateway": "10.132.0.1"},
    "mac": "02:00:00:00:00:02", "type": "private"}],
  "public": [{"ipv4": {"ip_address": "192.0.2.20", "netmask": "255.255.255.0", "gateway": "192.0.2.1"},
    "ipv6": {"ip_address": "2604:A880:0800:0010:0000:0000:017D:2001", "cidr": 64,
             "gateway": "2604:A880:0800:0010:0000:0000:0000:0001"},
    "anchor_ipv4": {"ip_address": "10.17.0.5", "netmask": "255.255.0.0", "gateway": "10.17.0.1"},
    "mac": "02:00:00:00:00:01", "type": "public"}]},
 "floating_ip": {"ipv4": {"active": false}},
 "dns": {"nameservers": ["2001:4860:4860::8844", "8.8.8.8"]}, "features": {"dhcp_enabled": false}}
"""
SERVER = FakeServer(
    {
        f"{BASE}/v1.json": METADATA,
        f"{BASE}/v1/interfaces/public/0/ipv4/address": "192.0.2.20",
        f"{BASE}/v1/user-data": "version: v1alpha1\n",
    }
)


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, SERVER)
    assert show(spec) == [
        "link eth0",
        "link eth1",
        "address eth0 192.0.2.20/24",
        "address eth0 2604:a880:800:10::17d:2001/64",
        "address eth0 10.17.0.5/16",
        "address eth1 10.132.255.113/16",
        "route eth0 169.254.169.254/32 metric 1024",
        "route eth0 default via 192.0.2.1 metric 1024",
        "route eth0 default via 2604:a880:800:10::1 metric 2048",
        "resolver 2001:4860:4860::8844",
        "resolver 8.8.8.8",
        "external 192.0.2.20",
    ]
    metadata = spec.metadata
    assert (metadata.hostname, metadata.region, metadata.zone) == ("sample-droplet", "nyc3", "")
    assert (metadata.instance_id, metadata.provider_id) == ("2756294", "digitalocean://2756294")


async def test_cards_without_hardware_addresses_are_known_by_their_place() -> None:
    document = json.loads(METADATA)
    for cards in document["interfaces"].values():
        del cards[0]["mac"]
    server = FakeServer({f"{BASE}/v1.json": json.dumps(document)})
    assert show(await describe(CLOUD, server))[:2] == ["link eth0", "link eth1"]


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, SERVER) == b"version: v1alpha1\n"
    assert await load_user_data(CLOUD, FakeServer({})) == b""


async def test_nothing_is_known() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == ([], "")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"interfaces": "x"}, "interfaces: a mapping"),
        ({"interfaces": {"public": [{"ipv4": 1}]}}, r"interfaces\.public\.ipv4"),
        ({"interfaces": {"public": [{"ipv4": {"ip_address": "x", "netmask": "y"}}]}}, "'x/y'"),
        ({"interfaces": {"public": [{"mac": "a"}] * 2000}}, "more than 1024"),
        ({"dns": {"nameservers": "x"}}, "dns: name server 'x'"),
        ({"hostname": {}}, "hostname: a short text"),
        ({"region": "\ud800"}, "region: a short text"),
    ],
)
async def test_a_mistake_is_named_on_one_line(change: dict[str, object], where: str) -> None:
    server = FakeServer({f"{BASE}/v1.json": json.dumps(json.loads(METADATA) | change)})
    with pytest.raises(UserError, match=rf"v1\.json.*{where}") as caught:
        await describe(CLOUD, server)
    assert str(caught.value).isprintable()
