"""Exoscale, by answers in the form of its documentation."""

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.exoscale import CLOUD
from talos.system.errors import UserError

BASE = "http://169.254.169.254/1.0"
PARTS = {
    f"{BASE}/user-data": "version: v1alpha1\n",
    f"{BASE}/meta-data/local-hostname": "node-1",
    f"{BASE}/meta-data/instance-id": "2b4b5e9c-2a5c-4c3c-8a4b-0a6f6e0e5d3b",
    f"{BASE}/meta-data/service-offering": "Medium",
    f"{BASE}/meta-data/availability-zone": "ch-gva-2",
    f"{BASE}/meta-data/public-ipv4": "192.0.2.7",
}


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, FakeServer(PARTS))
    assert show(spec) == ["external 192.0.2.7"]
    metadata = spec.metadata
    assert (metadata.hostname, metadata.zone, metadata.instance_type) == ("node-1", "ch-gva-2", "Medium")
    assert metadata.provider_id == "exoscale://2b4b5e9c-2a5c-4c3c-8a4b-0a6f6e0e5d3b"


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, FakeServer(PARTS)) == b"version: v1alpha1\n"
    assert await load_user_data(CLOUD, FakeServer({})) == b""
    with pytest.raises(UserError, match="user-data: this is for cloud-init"):
        await load_user_data(CLOUD, FakeServer({f"{BASE}/user-data": "#cloud-config\n"}))


async def test_a_mistake_is_named() -> None:
    with pytest.raises(UserError, match="public-ipv4: address 'x'"):
        await describe(CLOUD, FakeServer({f"{BASE}/meta-data/public-ipv4": "x"}))
