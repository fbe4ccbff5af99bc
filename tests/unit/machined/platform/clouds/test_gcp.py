"""Google Compute Engine, by answers in the form of its documentation."""

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.gcp import BASE, CLOUD, NETWORK
from talos.system.errors import UserError

CARDS = """\
[{
  "accessConfigs": [{"externalIp": "192.0.2.7", "type": "ONE_TO_ONE_NAT"}],
  "dhcpv6Refresh": "2219726792944608985",
  "dnsServers": ["169.254.169.254"],
  "forwardedIps": ["10.0.0.230"],
  "gateway": "10.0.0.1",
  "gatewayIpv6": "fe80::4001:acff:fe10:1",
  "ip": "10.0.0.4",
  "ipAliases": [],
  "ipv6": ["fd20:172:1610:7003:0:1::/96"],
  "ipv6s": ["fd20:172:1610:7003:0:1:0:0"],
  "mac": "02:00:00:00:00:01",
  "mtu": 1460,
  "network": "projects/123/networks/main",
  "subnetmask": "255.255.255.0",
  "targetInstanceIps": []
}, {
  "accessConfigs": [{"externalIp": "", "type": "ONE_TO_ONE_NAT"}],
  "ip": "10.1.0.4",
  "mac": "02:00:00:00:00:02",
  "mtu": 8896
}]
"""


def make_server(**more: str) -> FakeServer:
    return FakeServer(
        {
            f"{BASE}/instance/attributes/user-data": "version: v1alpha1\n",
            f"{BASE}/project/project-id": "my-project",
            f"{BASE}/instance/name": "node-1",
            f"{BASE}/instance/hostname": "node-1.europe-west3-a.c.my-project.internal",
            f"{BASE}/instance/id": "4711",
            f"{BASE}/instance/machine-type": "projects/123/machineTypes/n2-standard-4",
            f"{BASE}/instance/zone": "projects/123/zones/europe-west3-a",
            f"{BASE}/instance/scheduling/preemptible": "TRUE",
            f"{BASE}/instance/tags": '["http-server","worker"]',
            f"{BASE}/{NETWORK}": CARDS,
        }
        | more,
        headers={"Metadata-Flavor": "Google"},
    )


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, make_server())
    assert show(spec) == [
        "link eth0 mtu 1460",
        "link eth1 mtu 8896",
        "address eth0 fd20:172:1610:7003:0:1::/96",
        "route eth0 default via fe80::4001:acff:fe10:1 metric 2048",
        "dhcp4 eth0",
        "dhcp4 eth1",
        "resolver 169.254.169.254",
        "time metadata.google.internal",
        "external 192.0.2.7",
    ]
    metadata = spec.metadata
    assert metadata.provider_id == "gce://my-project/europe-west3-a/node-1"
    assert (metadata.region, metadata.zone) == ("europe-west3", "europe-west3-a")
    assert (metadata.instance_id, metadata.instance_type) == ("4711", "n2-standard-4")
    assert (metadata.spot, dict(metadata.tags)) == (True, {"http-server": "", "worker": ""})
    assert metadata.hostname == "node-1.europe-west3-a.c.my-project.internal"


async def test_a_card_that_is_not_there_yet_is_left_out() -> None:
    spec = await describe(CLOUD, make_server(), {"02:00:00:00:00:02": "eth0"})
    assert [link.name for link in spec.links] == ["eth0"]
    assert [one.link_name for one in spec.operators] == ["eth0"]


async def test_parts_that_are_missing() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert show(spec) == ["resolver 169.254.169.254", "time metadata.google.internal"]
    assert spec.metadata.provider_id == ""


@pytest.mark.parametrize(
    ("part", "text", "where"),
    [
        (NETWORK, "[", r"network-interfaces: this is no JSON"),
        (NETWORK, '[{"mtu": 1}]', r"network-interfaces\[0\].mtu"),
        (NETWORK, '[{"ipv6": ["x/64"]}]', r"network-interfaces\[0\]: address 'x/64'"),
        (NETWORK, '[{"mac": {"a": 1}}]', r"network-interfaces\[0\].mac"),
        ("instance/tags", '["\\ud800"]', r"instance/tags: a short text"),
    ],
)
async def test_a_mistake_is_named_on_one_line(part: str, text: str, where: str) -> None:
    with pytest.raises(UserError, match=where) as caught:
        await describe(CLOUD, make_server(**{f"{BASE}/{part}": text}))
    assert str(caught.value).isprintable()


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, make_server()) == b"version: v1alpha1\n"
    assert await load_user_data(CLOUD, FakeServer({})) == b""
