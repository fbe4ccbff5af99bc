"""The node's keys and its address in KubeSpan."""

from ipaddress import ip_address, ip_interface
from pathlib import Path

import pytest
import trio.testing
from tests.unit.machined.controllers.running import mount_state, running

from talos.api.addresses import make_prefix
from talos.api.definitions.kubespan_pb2 import ConfigSpec
from talos.api.definitions.network_pb2 import HardwareAddrSpec
from talos.machined.controllers.kubespan.identity import KubeSpanIdentityController
from talos.machined.node.kubespan import keep_keys, make_address, make_subnet
from talos.pki.wireguard import make_public_key
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

CLUSTER = "8XuV9TZHW08DOk3bVxQjH9ih_TBKjnh-j44tsCLSBzo="
MAC = bytes.fromhex("2e1ab6538169")
ADDRESS = "fd7f:175a:b97c:5602:2c1a:b6ff:fe53:8169/128"
"""Upstream's own example."""
PRIVATE = "YCmmKPQTPPGiTi3w4eTD+cBzPTOTUg3pdO4ERlDgDWs="
PUBLIC = "vCciBo2XSigSQtRbo66UZkwLO2wnCuifIgw7qmHxyBg="


def test_the_address_follows_from_cluster_and_card() -> None:
    subnet = make_subnet(CLUSTER)
    assert str(subnet) == "fd7f:175a:b97c:5602::/64"
    assert str(make_address(subnet, MAC)) == ADDRESS
    whole = make_address(subnet, bytes.fromhex("0011223344556677"))
    assert whole.ip == ip_address("fd7f:175a:b97c:5602:11:2233:4455:6677")
    with pytest.raises(ValueError, match="6 or 8 bytes, not 20"):
        make_address(subnet, bytes(20))


def test_keys_are_made_once_and_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "kubespan-identity.yaml"
    keys = keep_keys(tmp_path)
    assert keep_keys(tmp_path) == keys
    assert file.stat().st_mode & 0o777 == 0o600
    assert f"publicKey: {keys.public}\n" in file.read_text(encoding="ascii")
    file.write_text(f"address: fd00::1/128\nprivateKey: {PRIVATE}\n", encoding="ascii")
    assert keep_keys(tmp_path).public == make_public_key(PRIVATE) == PUBLIC
    for damaged in ("", "privateKey: ''\n", "privateKey: c2VjcmV0\n", "- {", f"[{PRIVATE}]"):
        file.write_text(damaged, encoding="ascii")
        with pytest.raises(ValueError, match=r"kubespan-identity\.yaml: .*restore the file") as caught:
            keep_keys(tmp_path)
        assert "c2VjcmV0" not in str(caught.value)
        assert PRIVATE not in str(caught.value)
        assert file.read_text(encoding="ascii") == damaged


async def test_the_identity_comes_with_state_and_goes_with_the_config(tmp_path: Path) -> None:
    state = MemoryState()
    card = HardwareAddrSpec(name="eth0", hardware_addr=MAC)
    async with running(state, KubeSpanIdentityController(Log(write=lambda _: None))):
        await put(state, *ids.HARDWARE_ADDRESS_FIRST, card, owner="test")
        on = ConfigSpec(enabled=True, cluster_id=CLUSTER)
        await put(state, *ids.KUBE_SPAN_CONFIG, on, owner="test")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert await state.list(kinds.KUBE_SPAN_IDENTITY) == []
        await mount_state(state, tmp_path)
        found = await wait_for(state, *ids.KUBE_SPAN_IDENTITY, lambda _: True)
        assert found.spec.address == make_prefix(ip_interface(ADDRESS))
        assert make_public_key(found.spec.private_key) == found.spec.public_key
        await put(state, *ids.KUBE_SPAN_CONFIG, ConfigSpec(cluster_id=CLUSTER), owner="test")
        while await state.list(kinds.KUBE_SPAN_IDENTITY):
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert keep_keys(tmp_path).public == found.spec.public_key
