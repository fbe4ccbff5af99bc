"""Amazon EC2, by answers in the form of its documentation."""

import pytest
from tests.unit.machined.platform.clouds.cloud import (
    FakeServer,
    describe,
    describe_by,
    load_user_data,
    make_cloud_source,
    show,
)

from talos.machined.platform.clouds.aws import CLOUD
from talos.system.errors import UserError

TOKEN = "AQAEALKxxc=="
BASE = "http://169.254.169.254/latest"
META = f"{BASE}/meta-data"


def make_server(**more: str) -> FakeServer:
    return FakeServer(
        {
            f"{BASE}/user-data": "version: v1alpha1\n",
            f"{META}/hostname": "ip-10-0-0-5.eu-central-1.compute.internal",
            f"{META}/local-hostname": "ip-10-0-0-5.eu-central-1.compute.internal",
            f"{META}/public-hostname": "ec2-192-0-2-7.eu-central-1.compute.amazonaws.com",
            f"{META}/instance-id": "i-0123456789abcdef0",
            f"{META}/instance-type": "m5.large",
            f"{META}/instance-life-cycle": "spot",
            f"{META}/public-ipv4": "192.0.2.7",
            f"{META}/placement/region": "eu-central-1",
            f"{META}/placement/availability-zone": "eu-central-1a",
            f"{META}/mac": "02:00:00:00:00:01",
            f"{META}/tags/instance": "Name\nrole",
            f"{META}/tags/instance/Name": "node-1",
            f"{META}/tags/instance/role": "worker",
        }
        | more,
        tokens={f"{BASE}/api/token": TOKEN},
        headers={"X-aws-ec2-metadata-token": TOKEN},
    )


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, make_server())
    assert show(spec) == ["link eth0", "dhcp4 eth0", "time 169.254.169.123", "external 192.0.2.7"]
    metadata = spec.metadata
    assert metadata.provider_id == "aws:///eu-central-1a/i-0123456789abcdef0"
    assert (metadata.region, metadata.instance_type, metadata.spot) == ("eu-central-1", "m5.large", True)
    assert dict(metadata.tags) == {"Name": "node-1", "role": "worker"}
    assert [(one.hostname, one.domainname) for one in spec.hostnames] == [
        ("ip-10-0-0-5", "eu-central-1.compute.internal")
    ]


async def test_a_machine_with_ipv6() -> None:
    place = f"{META}/network/interfaces/macs/02:00:00:00:00:01/ipv6s"
    spec = await describe(CLOUD, make_server(**{place: "2001:db8::5"}))
    assert show(spec)[1:] == [
        "dhcp4 eth0",
        "dhcp6 eth0",
        "resolver fd00:ec2::253",
        "time 169.254.169.123",
        "time fd00:ec2::123",
        "external 192.0.2.7",
    ]


async def test_a_machine_of_which_nothing_is_known() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == (
        ["link eth0", "dhcp4 eth0", "time 169.254.169.123"],
        "",
    )


@pytest.mark.parametrize("text", ["<html>\n<body>\n", "<html>" * 1024, "i-1\0-"])
async def test_what_is_no_instance_id_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError, match="instance-id: a short text") as caught:
        await describe(CLOUD, make_server(**{f"{META}/instance-id": text}))
    assert str(caught.value).isprintable()


async def test_names_and_values_of_tags_are_peoples() -> None:
    tags = {f"{META}/tags/instance": "größe a/b", f"{META}/tags/instance/gr%C3%B6%C3%9Fe": "two\nlines"}
    spec = await describe(CLOUD, make_server(**tags))
    assert dict(spec.metadata.tags) == {"größe": "two\nlines", "a/b": ""}


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, make_server()) == b"version: v1alpha1\n"


async def test_a_machine_whose_server_has_an_address_of_ipv6_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = make_server()
    place = BASE.replace("169.254.169.254", "[fd00:ec2::254]")
    there = FakeServer(
        {url.replace(BASE, place): text for url, text in server.parts.items()},
        tokens={f"{place}/api/token": TOKEN},
        headers=server.headers,
        silent=BASE,
    )
    source = await make_cloud_source(there)
    assert await CLOUD.load_config(source) == b"version: v1alpha1\n"
    spec = await describe_by(CLOUD, source)
    assert spec.metadata.instance_id == "i-0123456789abcdef0"
    assert [request.method for request in there.requests if request.url.startswith(BASE)] == ["PUT", "PUT"]
    # What is reported sends the machine to maintenance mode meanwhile.
    assert capsys.readouterr().out == ""
