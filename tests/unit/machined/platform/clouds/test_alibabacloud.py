"""Alibaba Cloud ECS, by answers in the form of its documentation."""

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.alibabacloud import BASE, CLOUD
from talos.system.errors import UserError

TOKEN = "AQAEALKxxc=="
META = f"{BASE}/meta-data"
CARD = f"{META}/network/interfaces/macs/02:00:00:00:00:01"


def make_server(**more: str) -> FakeServer:
    return FakeServer(
        {
            f"{BASE}/user-data": "version: v1alpha1\n",
            f"{META}/hostname": "node-1",
            f"{META}/region-id": "cn-hangzhou",
            f"{META}/zone-id": "cn-hangzhou-i",
            f"{META}/instance-id": "i-bp13znx0m0me8cquu",
            f"{META}/instance/instance-type": "ecs.g6e.large",
            f"{META}/eipv4": "192.0.2.7",
            f"{META}/mac": "02:00:00:00:00:01",
            f"{META}/dns-conf/nameservers": "100.100.2.136\n100.100.2.138",
            f"{META}/ntp-conf/ntp-servers": "\n".join(f"ntp{number}.aliyun.com" for number in range(1, 13)),
            f"{CARD}/ipv6s": "[2408:4321:325:a204:1875:217f:184a:e4e]",
            f"{CARD}/ipv6-gateway": "2408:4321:325:a204:ffff:ffff:ffff:fff7",
            f"{CARD}/vswitch-ipv6-cidr-block": "2408:4321:325:a204::/64",
        }
        | more,
        tokens={f"{BASE}/api/token": TOKEN},
        headers={"X-Aliyun-Ecs-Metadata-Token": TOKEN},
    )


async def test_what_a_machine_learns() -> None:
    server = make_server()
    spec = await describe(CLOUD, server)
    assert show(spec) == [
        "link eth0",
        "address eth0 2408:4321:325:a204:1875:217f:184a:e4e/64",
        "route eth0 default via 2408:4321:325:a204:ffff:ffff:ffff:fff7 metric 2048",
        "dhcp4 eth0",
        "resolver 100.100.2.136",
        "resolver 100.100.2.138",
        *(f"time ntp{number}.aliyun.com" for number in range(1, 6)),
        "external 192.0.2.7",
    ]
    metadata = spec.metadata
    assert metadata.provider_id == "cn-hangzhou.i-bp13znx0m0me8cquu"
    assert (metadata.hostname, metadata.region, metadata.zone) == ("node-1", "cn-hangzhou", "cn-hangzhou-i")
    assert (metadata.instance_id, metadata.instance_type) == ("i-bp13znx0m0me8cquu", "ecs.g6e.large")
    assert server.requests[0].headers == {"X-Aliyun-Ecs-Metadata-Token-Ttl-Seconds": "21600"}


async def test_a_list_of_addresses_may_be_in_json() -> None:
    spec = await describe(CLOUD, make_server(**{f"{CARD}/ipv6s": '["2408:4321::1","2408:4321::2"]'}))
    assert show(spec)[1:3] == ["address eth0 2408:4321::1/64", "address eth0 2408:4321::2/64"]


async def test_a_public_address_that_is_no_elastic_one() -> None:
    spec = await describe(CLOUD, make_server(**{f"{META}/public-ipv4": "192.0.2.8"}))
    assert show(spec)[-1] == "external 192.0.2.8"


async def test_parts_that_are_missing() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == (["link eth0", "dhcp4 eth0"], "")


@pytest.mark.parametrize(
    ("part", "text", "where"),
    [
        (f"{CARD}/ipv6s", "<html>\n</html>", "ipv6s: a short text"),
        (f"{CARD}/ipv6-gateway", "x", "ipv6-gateway: route"),
        (f"{META}/dns-conf/nameservers", "x", "dns-conf/nameservers: name server 'x'"),
        (f"{META}/hostname", "a\nb", "hostname: a short text"),
        (f"{META}/eipv4", "x", "eipv4: address 'x'"),
    ],
)
async def test_a_mistake_is_named_on_one_line(part: str, text: str, where: str) -> None:
    with pytest.raises(UserError, match=where) as caught:
        await describe(CLOUD, make_server(**{part: text}))
    assert str(caught.value).isprintable()


async def test_a_hardware_address_is_no_path() -> None:
    server = make_server(**{f"{META}/mac": "../../user-data"})
    spec = await describe(CLOUD, server)
    assert not spec.operators
    assert not any("macs" in request.url for request in server.requests)


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, make_server()) == b"version: v1alpha1\n"
    assert await load_user_data(CLOUD, FakeServer({})) == b""
