"""The metadata of a cloud's machine is published at each boot; until it answers, what was kept is."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio
import trio.testing
from tests.unit.machined.platform.machine import Machine

from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.disks.volumes.requests import name_request
from talos.machined.boot.cloud_network import FILE, CloudNetwork, make_source
from talos.machined.platform.clouds.nocloud import CLOUD
from talos.machined.platform.network import parse_network
from talos.resource import ids, kinds
from talos.resource.changes import modify, wait_for
from talos.system.block.layout import STATE
from talos.system.files import KernelFiles
from talos.system.logging import Log
from talos.system.proc.cmdline import parse_cmdline

NETWORK = b"""\
version: 2
ethernets:
  a: {match: {macaddress: "02:00:00:00:00:01"}, addresses: [10.0.0.5/24]}
  b: {match: {macaddress: "02:00:00:00:00:02"}, addresses: [10.1.0.5/24]}
"""
META_DATA = b"local-hostname: node.example.org\ninstance-id: i-1\nregion: north\n"
SEED = {"meta-data": META_DATA, "network-config": NETWORK}


@dataclass
class Seeded(Machine):
    """A machine of nocloud."""

    lines: list[str] = field(default_factory=list[str])

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """A boot."""
        source = make_source(
            state=self.state,
            files=KernelFiles(),
            mounts=self.mounts,
            arguments=parse_cmdline(""),
            report=self.lines.append,
        )
        network = CloudNetwork(
            state=self.state,
            state_dir=self.folder,
            cloud=CLOUD,
            source=self.place_volume(source),
            base=parse_network("", "of-the-arguments", platform="nocloud"),
            log=Log(write=self.lines.append),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(network.run)
            yield
            nursery.cancel_scope.cancel()

    async def mount_state(self) -> None:
        await modify(self.state, kinds.VOLUME_MOUNT_STATUS, name_request(STATE.label), lambda _: None)

    async def wait_for_links(self, *links: str) -> PlatformConfigSpec:
        """Wait until the platform's addresses are those of these links."""
        found = await wait_for(
            self.state,
            *ids.PLATFORM_CONFIG,
            lambda one: [address.link_name for address in one.spec.addresses] == [*links],
        )
        return found.spec


async def test_names_metadata_and_addresses_are_published(tmp_path: Path) -> None:
    machine = Seeded(tmp_path, SEED)
    await machine.attach("cidata")
    await machine.show_card("enp0s3", 1)
    async with machine.running():
        await trio.testing.wait_all_tasks_blocked()
        await machine.show_card("enp0s9", 7)
        await machine.show_card("enp0s4", 2)
        spec = await machine.wait_for_links("enp0s3", "enp0s4")
        assert [(one.hostname, one.domainname) for one in spec.hostnames] == [("node", "example.org")]
        metadata = (await machine.state.get(*ids.PLATFORM_METADATA)).spec
        assert (metadata.platform, metadata.instance_id, metadata.region) == ("nocloud", "i-1", "north")
    assert machine.lines == []


async def test_a_card_is_configured_whenever_it_appears(tmp_path: Path, autojump_clock: object) -> None:
    del autojump_clock
    machine = Seeded(tmp_path, SEED)
    await machine.attach("cidata")
    async with machine.running():
        await machine.wait_for_links("a", "b")
        await trio.sleep(3600)
        await machine.show_card("enp0s4", 2)
        await machine.wait_for_links("a", "enp0s4")
        await machine.show_card("enp0s3", 1)
        await machine.wait_for_links("enp0s3", "enp0s4")
    assert ["02:00:00:00:00:01" in machine.lines[0], "02:00:00:00:00:02" in machine.lines[1]] == [True, True]
    assert len(machine.lines) == 2


async def test_cards_of_a_bond_are_recognized_by_their_own_addresses(tmp_path: Path) -> None:
    machine = Seeded(tmp_path, SEED)
    await machine.attach("cidata")
    await machine.show_card("enp0s3", 1, permanent=1)
    await machine.show_card("enp0s4", 1, permanent=2)
    async with machine.running():
        await machine.wait_for_links("enp0s3", "enp0s4")


async def test_a_card_goes_before_the_function_that_works_for_it(tmp_path: Path) -> None:
    machine = Seeded(tmp_path, SEED)
    await machine.attach("cidata")
    await machine.show_card("eth0", 1)
    await machine.show_card("eth1", 2)
    await machine.show_card("enP1s1", 3, permanent=1)
    async with machine.running():
        await machine.wait_for_links("eth0", "eth1")


async def test_a_mistake_in_the_network_is_logged(tmp_path: Path) -> None:
    machine = Seeded(tmp_path, SEED | {"network-config": b"version: 3\n"})
    await machine.attach("cidata")
    async with machine.running():
        while not machine.lines:
            await trio.lowlevel.checkpoint()
    (line,) = machine.lines
    assert "is not used" in line
    assert "network-config: version '3' is neither 1 nor 2" in line


async def test_without_the_seed_the_next_boot_has_what_was_kept(tmp_path: Path) -> None:
    first = Seeded(tmp_path, SEED)
    await first.attach("cidata")
    await first.show_card("enp0s3", 1)
    await first.show_card("enp0s4", 2)
    await first.mount_state()
    async with first.running():
        wanted = await first.wait_for_links("enp0s3", "enp0s4")
        while not (tmp_path / FILE).exists():
            await trio.lowlevel.checkpoint()
    second = Seeded(tmp_path)
    await modify(second.state, *ids.DEVICES_STATUS, lambda spec: setattr(spec, "ready", True))
    await second.mount_state()
    async with second.running():
        kept = await wait_for(second.state, *ids.PLATFORM_CONFIG_CACHED, lambda _: True)
        assert kept.spec == wanted
        metadata = await wait_for(second.state, *ids.PLATFORM_METADATA, lambda _: True)
        assert metadata.spec.instance_id == "i-1"


async def test_a_damaged_copy_is_named(tmp_path: Path) -> None:
    machine = Seeded(tmp_path)
    (tmp_path / FILE).write_text("addresses: [{address: x}]")
    await machine.mount_state()
    async with machine.running():
        while not machine.lines:
            await trio.lowlevel.checkpoint()
    assert "platform-network.yaml is not used" in machine.lines[0]
