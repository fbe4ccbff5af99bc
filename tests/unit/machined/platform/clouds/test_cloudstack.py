"""Apache CloudStack, by answers in the form of its documentation."""

import pytest
from tests.unit.machined.platform.clouds.cloud import FakeServer, describe, load_user_data, show

from talos.machined.platform.clouds.cloudstack import CLOUD
from talos.system.errors import UserError

BASE = "http://data-server./latest"
PARTS = {
    f"{BASE}/user-data": "version: v1alpha1\n",
    f"{BASE}/meta-data/local-hostname": "VM-ab4e80b0-3e7e-4936-bdc5-e334ba5b0139\n",
    f"{BASE}/meta-data/instance-id": "ab4e80b0-3e7e-4936-bdc5-e334ba5b0139",
    f"{BASE}/meta-data/service-offering": "Micro 512mb 1cpu",
    f"{BASE}/meta-data/availability-zone": "ch-gva-2",
    f"{BASE}/meta-data/public-ipv4": "192.0.2.7",
    f"{BASE}/meta-data/local-ipv4": "10.1.1.5",
}


async def test_what_a_machine_learns() -> None:
    spec = await describe(CLOUD, FakeServer(PARTS))
    assert show(spec) == ["external 192.0.2.7"]
    metadata = spec.metadata
    assert metadata.hostname == "VM-ab4e80b0-3e7e-4936-bdc5-e334ba5b0139"
    assert (metadata.zone, metadata.instance_type) == ("ch-gva-2", "Micro 512mb 1cpu")
    assert metadata.provider_id == "cloudstack://ab4e80b0-3e7e-4936-bdc5-e334ba5b0139"


async def test_nothing_is_known() -> None:
    spec = await describe(CLOUD, FakeServer({}))
    assert (show(spec), spec.metadata.provider_id) == ([], "")
    assert await load_user_data(CLOUD, FakeServer({})) == b""


async def test_its_config() -> None:
    assert await load_user_data(CLOUD, FakeServer(PARTS)) == b"version: v1alpha1\n"


@pytest.mark.parametrize(
    ("part", "text", "where"),
    [
        ("local-hostname", "a name\n\x1b[2J", "local-hostname: a short text"),
        ("public-ipv4", "\ud7ff" * 100, "public-ipv4: a short text"),
    ],
)
async def test_a_mistake_is_named_on_one_line(part: str, text: str, where: str) -> None:
    with pytest.raises(UserError, match=where) as caught:
        await describe(CLOUD, FakeServer({f"{BASE}/meta-data/{part}": text}))
    assert str(caught.value).isprintable()
