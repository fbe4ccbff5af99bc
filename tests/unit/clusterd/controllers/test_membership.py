"""From a node's own state and that of others to members and endpoints, in a State in memory."""

import base64
import ipaddress
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing
from google.protobuf.message import Message

from talos.api.common.common_pb2 import NetIP, NetIPPrefix
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import AffiliateSpec, ConfigSpec, IdentitySpec
from talos.api.definitions.network_pb2 import HostnameStatusSpec, NodeAddressSpec
from talos.api.resource import config_pb2
from talos.clusterd.controllers.config import make_discovery
from talos.clusterd.controllers.local_affiliate import LocalAffiliateController
from talos.clusterd.controllers.members import (
    DISCOVERED,
    RAW_NAMESPACE,
    AffiliateMergeController,
    EndpointController,
    MemberController,
)
from talos.clusterd.controllers.nodename import NodenameController
from talos.clusterd.discovery.client import is_endpoint
from talos.config.read.loader import load
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present, put
from talos.resource.controller.runtime import run_controllers
from talos.resource.ids import Singleton
from talos.resource.memory.state import MemoryState
from talos.resource.state import NotFoundError
from talos.system.logging import Log

CONFIG = """\
version: v1alpha1
machine:
  type: controlplane
  token: abcdef.0123456789abcdef
  kubelet:
    registerWithFQDN: true
cluster:
  controlPlane:
    endpoint: https://10.5.0.2:6443
    localAPIServerPort: 7443
"""


def packed(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


@dataclass
class Machine:
    state: MemoryState = field(default_factory=MemoryState)
    lines: list[str] = field(default_factory=list[str])

    async def write[S: Message](self, resource: Singleton[S], spec: S) -> None:
        await put(self.state, *resource, spec, owner="test")
        await self.settled()

    async def discover(self, id: str, spec: AffiliateSpec) -> None:
        await put(self.state, kinds.AFFILIATE, id, spec, owner="test", namespace=RAW_NAMESPACE)
        await self.settled()

    async def settled(self) -> None:
        await trio.testing.wait_all_tasks_blocked(0.01)

    async def affiliate(self) -> AffiliateSpec | None:
        try:
            return (await self.state.get(kinds.AFFILIATE, "own")).spec
        except NotFoundError:
            return None

    async def members(self) -> dict[str, str]:
        return {member.id: member.spec.node_id for member in await self.state.list(kinds.MEMBER)}

    async def endpoints(self) -> list[str]:
        spec = (await self.state.get(kinds.ENDPOINT, DISCOVERED)).spec
        return [str(ipaddress.ip_address(address.ip)) for address in spec.addresses]


@asynccontextmanager
async def running() -> AsyncGenerator[Machine]:
    machine = Machine()
    controllers = [
        NodenameController(),
        LocalAffiliateController(),
        AffiliateMergeController(),
        MemberController(Log(write=machine.lines.append)),
        EndpointController(),
    ]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, machine.state, controllers)
        await machine.settled()
        yield machine
        nursery.cancel_scope.cancel()


async def configure(machine: Machine) -> None:
    await machine.write(ids.MACHINE_CONFIG, config_pb2.MachineConfigSpec(yaml_marshalled=CONFIG.encode()))
    await machine.write(ids.DISCOVERY_CONFIG, ConfigSpec(discovery_enabled=True))
    await machine.write(ids.IDENTITY, IdentitySpec(node_id="own"))
    await machine.write(ids.HOSTNAME_STATUS, HostnameStatusSpec(hostname="Node-1", domainname="example.org"))
    await machine.write(ids.MACHINE_TYPE, config_pb2.MachineTypeSpec(machine_type=config_pb2.CONTROL_PLANE))
    addresses = [NetIPPrefix(ip=packed("10.5.0.2"), prefix_length=24)]
    await machine.write(ids.NODE_ADDRESS_ROUTED_NO_K8S, NodeAddressSpec(addresses=addresses))


def other(node_id: str, **changes: object) -> AffiliateSpec:
    spec = AffiliateSpec(
        node_id=node_id,
        hostname=f"host-{node_id}",
        nodename=f"host-{node_id}",
        machine_type=enums.TYPE_CONTROL_PLANE,
        addresses=[NetIP(ip=packed("10.5.0.3"))],
    )
    for name, value in changes.items():
        setattr(spec, name, value)
    return spec


async def test_the_node_describes_itself_when_everything_is_known() -> None:
    async with running() as machine:
        await configure(machine)
        affiliate = await machine.affiliate()
        assert affiliate is not None
        assert affiliate.hostname == "Node-1.example.org"
        assert affiliate.nodename == "node-1.example.org"
        assert affiliate.operating_system.startswith("Talos (v")
        assert affiliate.machine_type == enums.TYPE_CONTROL_PLANE
        assert affiliate.control_plane.api_server_port == 7443
        assert [address.ip for address in affiliate.addresses] == [packed("10.5.0.2")]
        assert await machine.members() == {"node-1.example.org": "own"}
        assert await machine.endpoints() == ["10.5.0.2"]
        await machine.write(ids.DISCOVERY_CONFIG, ConfigSpec(discovery_enabled=False))
        assert await machine.affiliate() is None
        assert await machine.members() == {}


async def test_others_become_members_and_go() -> None:
    async with running() as machine:
        await configure(machine)
        await machine.discover("service/b", other("b"))
        await machine.discover("k8s/b", other("b"))
        await machine.discover("service/w", other("w", machine_type=enums.TYPE_WORKER))
        await machine.discover("service/n", other("n", nodename=""))
        members = await machine.members()
        assert members == {"node-1.example.org": "own", "host-b": "b", "host-w": "w"}
        assert await machine.endpoints() == ["10.5.0.2", "10.5.0.3"]
        for raw in ("service/b", "k8s/b"):
            await destroy_if_present(
                machine.state, kinds.AFFILIATE, raw, namespace=RAW_NAMESPACE, owner="test"
            )
        await machine.settled()
        assert "host-b" not in await machine.members()
        assert await machine.endpoints() == ["10.5.0.2"]


async def test_what_others_say_about_this_node_is_ignored() -> None:
    async with running() as machine:
        await configure(machine)
        await machine.discover("service/own", other("own", hostname="evil"))
        affiliate = await machine.affiliate()
        assert affiliate is not None
        assert affiliate.hostname == "Node-1.example.org"


async def test_two_nodes_of_one_name_are_one_member_and_reported_once() -> None:
    async with running() as machine:
        await configure(machine)
        await machine.discover("service/b", other("b", nodename="same"))
        await machine.discover("service/c", other("c", nodename="same"))
        version = (await machine.state.get(kinds.MEMBER, "same")).metadata.version
        await machine.discover("service/d", other("d"))
        member = await machine.state.get(kinds.MEMBER, "same")
        assert (member.spec.node_id, member.metadata.version) == ("b", version)
        assert len(machine.lines) == 1
        assert "two nodes are called same: b and c" in machine.lines[0]


def test_a_secret_that_is_no_base64_is_no_key() -> None:
    for secret, size in ((base64.b64encode(bytes(32)).decode(), 32), ("not base64!", 0)):
        discovery = f"""\
  id: {base64.b64encode(bytes(32)).decode()}
  secret: {secret}
  discovery:
    enabled: true
"""
        spec = make_discovery(load(CONFIG + discovery))
        assert len(spec.service_encryption_key) == size
        assert spec.service_endpoint == "discovery.talos.dev:443"


@pytest.mark.parametrize(
    ("url", "endpoint", "insecure"),
    [
        ("https://discovery.example.org/", "discovery.example.org:443", False),
        ("https://discovery.example.org:3000/", "discovery.example.org:3000", False),
        ("http://10.5.0.254:3000/", "10.5.0.254:3000", True),
        ("https://[2001:db8::1]:3000/", "[2001:db8::1]:3000", False),
    ],
)
def test_a_service_s_url_becomes_host_and_port(url: str, endpoint: str, *, insecure: bool) -> None:
    document = f"---\napiVersion: v1alpha1\nkind: DiscoveryServiceConfig\nname: default\nendpoint: {url}\n"
    (found,) = make_discovery(load(CONFIG + document)).service_endpoints
    assert (found.name, found.endpoint, found.insecure) == ("default", endpoint, insecure)
    assert is_endpoint(found.endpoint)


def test_a_service_that_is_switched_off_is_no_discovery() -> None:
    off = (
        "  discovery: {enabled: true, registries: {kubernetes: {disabled: %s}, service: {disabled: true}}}\n"
    )
    spec = make_discovery(load(CONFIG + off % "true"))
    assert not spec.discovery_enabled
    assert not spec.service_endpoints
    spec = make_discovery(load(CONFIG + off % "false"))
    assert (spec.discovery_enabled, spec.registry_kubernetes_enabled) == (True, True)
    assert not spec.registry_service_enabled
    (found,) = make_discovery(load(CONFIG + "  discovery: {enabled: true}\n")).service_endpoints
    assert found.name == "legacy"
