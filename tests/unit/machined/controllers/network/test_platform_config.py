"""The network in META becomes the platform's, changes with the value and goes with it."""

import json

import pytest
import trio
from tests.unit.machined.controllers.running import running

from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.api.definitions.runtime_pb2 import MetaKeySpec
from talos.machined.controllers.network.platform_config import KEY, PlatformNetworkController, parse_network
from talos.machined.node.resources import BOOT_CONTROLLER
from talos.machined.platform.network import parse_network as make_platform
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.logging import Log

VALUE = """\
addresses:
  - {address: 10.0.0.2/24, linkName: bond0, family: inet4, scope: global, flags: permanent}
links:
  - {name: bond0, logical: true, up: true, kind: bond, type: ether, bondMaster: {mode: 802.3ad}}
metadata: {platform: other}
"""


async def wait_until(state: MemoryState, addresses: int) -> PlatformConfigSpec:
    found = await wait_for(state, *ids.PLATFORM_CONFIG, lambda found: len(found.spec.addresses) == addresses)
    return found.spec


async def test_the_network_follows_the_value() -> None:
    state, lines = MemoryState(), list[str]()
    base = make_platform("", "from-the-kernel", platform="metal")
    await put(state, *ids.PLATFORM_CONFIG, base, owner=BOOT_CONTROLLER)
    async with running(state, PlatformNetworkController(Log(write=lines.append))):
        await put(state, kinds.META_KEY, KEY, MetaKeySpec(value=VALUE))
        found = await wait_until(state, 1)
        assert (found.metadata.platform, found.hostnames[0].hostname) == ("metal", "from-the-kernel")
        bond = found.links[0].bond_master
        assert (bond.use_carrier, bond.lp_interval, bond.ad_actor_sys_prio) == (True, 1, 65535)
        await put(state, kinds.META_KEY, KEY, MetaKeySpec(value="addresses: [{address: x}]"))
        two = json.dumps({"addresses": [{"address": "10.0.0.2/24"}, {"address": "10.0.0.3/24"}]})
        while not lines:
            await trio.lowlevel.checkpoint()
        assert "META 0x0a.addresses[0].address: 'x' has no prefix length" in lines[0]
        await wait_until(state, 1)
        await put(state, kinds.META_KEY, KEY, MetaKeySpec(value=two))
        await wait_until(state, 2)
        await destroy_if_present(state, kinds.META_KEY, KEY)
        assert await wait_until(state, 0) == base


@pytest.mark.parametrize("text", ["[" * 5000, "a: &a [*a]", "{", "\x00"])
def test_what_is_no_yaml(text: str) -> None:
    with pytest.raises(UserError, match="META 0x0a: this is no YAML"):
        parse_network(text)


def test_what_is_no_network() -> None:
    assert parse_network("") == PlatformConfigSpec()
