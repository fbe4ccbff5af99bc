"""What a machine without a config serves to unauthenticated callers, and its end with the config."""

import ipaddress
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio
import trio.testing
from cryptography import x509
from tests.unit.machined.controllers.secrets.test_certificates import config

from talos.api.definitions import network_pb2 as network
from talos.api.definitions import runtime_pb2 as runtime
from talos.api.definitions import secrets_pb2 as secrets
from talos.api.definitions.siderolink_pb2 import ConfigSpec
from talos.api.resource import config_pb2
from talos.machined.controllers.runtime.maintenance import (
    ApiServiceConfigController,
    MaintenanceConfigController,
)
from talos.machined.controllers.secrets.all import make_controllers
from talos.machined.controllers.secrets.api_certificates import (
    ApiCertificatesController,
    SigningRequest,
)
from talos.machined.controllers.secrets.maintenance import COMMON_NAME
from talos.machined.node.stage import MachineStage
from talos.pki.certificate import parse_certificate, spki_fingerprint
from talos.resource import ids, kinds
from talos.resource.changes import modify, put, wait_for
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.resource.resource import Resource
from talos.system.logging import Log


class Unanswered:
    """A trustd that does not answer."""

    async def sign(self, _request: SigningRequest) -> bytes:
        await trio.sleep_forever()
        raise AssertionError


class Machine:
    """A State with the controllers running on it."""

    def __init__(self) -> None:
        self.state = MemoryState()
        self.stage = MachineStage()
        self.lines: list[str] = []

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        log = Log(write=self.lines.append)
        own = [ApiServiceConfigController(), MaintenanceConfigController(self.stage, log)]
        # The bridge is for calls to trustd only.
        others = [one for one in make_controllers(None) if not isinstance(one, ApiCertificatesController)]  # pyright: ignore[reportArgumentType]
        async with trio.open_nursery() as nursery:
            controllers = [*own, *others, ApiCertificatesController(Unanswered().sign)]
            nursery.start_soon(run_controllers, self.state, controllers)
            yield
            nursery.cancel_scope.cancel()

    async def maintain(self) -> None:
        await modify(self.state, *ids.MAINTENANCE_SERVICE_REQUEST, lambda _: None)

    async def add_addresses(self, *addresses: str) -> None:
        def change(spec: network.NodeAddressSpec) -> None:
            for address in addresses:
                spec.addresses.add(ip=ipaddress.ip_address(address).packed, prefix_length=24)

        await modify(self.state, *ids.NODE_ADDRESS_CURRENT, change)

    async def configure(self, text: bytes) -> None:
        def change(spec: config_pb2.MachineConfigSpec) -> None:
            spec.yaml_marshalled = text

        await modify(self.state, *ids.MACHINE_CONFIG, change)

    async def certificate(self, *, names: int = 0) -> secrets.APICertsSpec:
        def is_there(resource: Resource[secrets.APICertsSpec]) -> bool:
            return resource.spec.skip_verifying_client_cert and len(ips_of(resource.spec)) >= names

        return (await wait_for(self.state, *ids.API_CERTIFICATE, is_there)).spec


def ips_of(spec: secrets.APICertsSpec) -> set[str]:
    names = parse_certificate(spec.server.crt).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return {str(ip) for ip in names.value.get_values_for_type(x509.IPAddress)}


async def test_nothing_is_served_before_it_is_known_that_there_is_no_config() -> None:
    machine = Machine()
    async with machine.running():
        await machine.add_addresses("10.5.0.2")
        await trio.testing.wait_all_tasks_blocked()
        assert await machine.state.list(kinds.API_CERTIFICATE) == []
        assert await machine.state.list(kinds.API_SERVICE_CONFIG) == []


async def test_a_machine_without_a_config_serves_unauthenticated_callers() -> None:
    machine = Machine()
    async with machine.running():
        await machine.maintain()
        spec = await machine.certificate()
        assert parse_certificate(spec.server.crt).subject.rfc4514_string() == f"CN={COMMON_NAME}"
        assert not spec.client.crt
        assert ips_of(spec) == {"127.0.0.1", "::1"}
        served = (await wait_for(machine.state, *ids.API_SERVICE_CONFIG, lambda _: True)).spec
        assert served == runtime.APIServiceConfigSpec(
            listen_address=":50000",
            node_routing_disabled=True,
            readonly_role_mode=True,
            skip_verifying_client_cert=True,
        )


async def test_the_key_stays_when_an_address_comes() -> None:
    machine = Machine()
    async with machine.running():
        await machine.maintain()
        first = await machine.certificate()
        await machine.add_addresses("10.5.0.2", "fe80::1")
        second = await machine.certificate(names=4)
        assert first.server.crt != second.server.crt
        assert first.server.key == second.server.key
        fingerprint = spki_fingerprint(parse_certificate(first.server.crt))
        await trio.testing.wait_all_tasks_blocked()
        (line,) = [line for line in machine.lines if "10.5.0.2" in line]
        assert f"--nodes 10.5.0.2 --cert-fingerprint {fingerprint} --file" in line
        assert "fe80" not in line
        assert machine.stage.fingerprint == fingerprint


async def test_with_siderolink_no_client_is_served_before_the_link_has_its_address() -> None:
    machine, address = Machine(), "fdae:41e4:649b:9303::2"
    async with machine.running():
        await put(machine.state, *ids.SIDEROLINK_CONFIG, ConfigSpec(host="192.0.2.1:1"), owner="test")
        await machine.add_addresses("10.5.0.2")
        await machine.maintain()
        await machine.certificate()
        await wait_for(machine.state, *ids.API_SERVICE_CONFIG, lambda one: not one.spec.listen_address)
        await trio.testing.wait_all_tasks_blocked()
        assert not [line for line in machine.lines if "10.5.0.2" in line]
        await machine.add_addresses(address)
        place = f"[{address}]:50000"
        await wait_for(machine.state, *ids.API_SERVICE_CONFIG, lambda one: one.spec.listen_address == place)
        shown = await wait_for(
            machine.state, *ids.MAINTENANCE_SERVICE_CONFIG, lambda one: one.spec.listen_address == place
        )
        assert [one.ip for one in shown.spec.reachable_addresses] == [ipaddress.ip_address(address).packed]
        await machine.configure(config(worker=True))
        await wait_for(
            machine.state, *ids.API_SERVICE_CONFIG, lambda one: one.spec.listen_address == ":50000"
        )


async def test_a_config_ends_it() -> None:
    machine = Machine()
    async with machine.running():
        await machine.maintain()
        await machine.certificate()
        await machine.configure(config(worker=True))
        # The worker's own certificate is trustd's to sign; no client is served before.
        await trio.testing.wait_all_tasks_blocked()
        assert await machine.state.list(kinds.API_CERTIFICATE) == []
        served = await wait_for(
            machine.state, *ids.API_SERVICE_CONFIG, lambda one: not one.spec.readonly_role_mode
        )
        assert not served.spec.skip_verifying_client_cert
        assert not machine.stage.fingerprint
