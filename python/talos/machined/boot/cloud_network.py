"""The metadata of a cloud's machine, at each boot: PlatformConfig, PlatformMetadata, their copy in STATE."""

from dataclasses import dataclass
from pathlib import Path

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.network_pb2 import PlatformConfigSpec
from talos.disks.volumes.requests import name_request
from talos.machined.node.resources import BOOT_CONTROLLER
from talos.machined.platform.arguments import find_environment
from talos.machined.platform.builder import Cards, NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud, Documents, Source
from talos.machined.platform.clouds.server import MetadataServer
from talos.machined.platform.config_sources.volume import VolumeSource
from talos.machined.platform.config_sources.web import Report
from talos.machined.platform.values import read_yaml
from talos.resource import ids, kinds
from talos.resource.changes import put, wait_for
from talos.resource.state import NotFoundError, State
from talos.resource.yaml.parse import value_to_message
from talos.resource.yaml.spec import spec_to_yaml
from talos.system.block.layout import STATE
from talos.system.errors import UserError
from talos.system.files import Files, replace_durably
from talos.system.logging import Log
from talos.system.mounts import Mounts
from talos.system.proc.cmdline import Cmdline

FILE = "platform-network.yaml"
"""In STATE, as upstream names it."""
CARDS_TIMEOUT = 15.0
"""Seconds to wait for the network cards that the cloud names: networkd shows them a moment after the disks
are known. A card that appears later is configured then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudNetwork:
    """Publishes what the cloud has of this machine; until it answers, the copy of an earlier boot."""

    state: State
    state_dir: Path
    cloud: Cloud
    source: Source
    base: PlatformConfigSpec
    """The platform's name, and the host name of the kernel's arguments."""
    log: Log

    async def run(self) -> None:
        """Publish until all is known and kept; a mistake in it is logged, and the machine stays on DHCP."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._publish_kept)
            try:
                documents = await self.cloud.load_documents(self.source)
                nursery.start_soon(self._keep)
                await self._follow(documents)
            except UserError as error:
                self.log.warning(f"the network of the platform is not used: {error}")

    async def _follow(self, documents: Documents) -> None:
        """Publish, and again whenever one of the missing cards appears."""
        found = await self._describe(documents)
        with trio.move_on_after(CARDS_TIMEOUT):
            while found.missing:
                found = await self._wait_for_card(documents, found)
        for card in found.missing:
            self.log.warning(f"the platform names a network card {card!r}, which is not there yet")
        await self._publish(found.spec)
        while found.missing:
            found = await self._wait_for_card(documents, found)
            await self._publish(found.spec)

    async def _wait_for_card(self, documents: Documents, before: NetworkBuilder) -> NetworkBuilder:
        """Read the documents anew until other cards are missing than before."""
        while True:
            async with self.state.watch(kinds.LINK_STATUS) as changes:
                found = await self._describe(documents)
                if found.missing != before.missing:
                    return found
                async for _ in changes:
                    found = await self._describe(documents)
                    if found.missing != before.missing:
                        return found

    async def _describe(self, documents: Documents) -> NetworkBuilder:
        """The network of the documents, with the cards that are there now."""
        builder = NetworkBuilder(await self._list_cards())
        await trio.to_thread.run_sync(self.cloud.describe, documents, builder)
        spec = builder.spec
        if not spec.hostnames:
            spec.hostnames.extend(self.base.hostnames)
            spec.metadata.hostname = self.base.metadata.hostname
        spec.metadata.platform = self.base.metadata.platform
        return builder

    async def _list_cards(self) -> Cards:
        """Those of a bond share another address than the one that each was made with.

        Of two with the same address the first counts: a virtual function that works for a hypervisor's card.
        """
        cards = [
            (one.spec.index, (one.spec.permanent_addr or one.spec.hardware_addr).hex(":"), one.id)
            for one in await self.state.list(kinds.LINK_STATUS)
            if one.spec.type == enums.LINK_ETHER and not one.spec.kind
        ]
        found: dict[str, str] = {}
        for _, hardware, name in sorted(cards):
            found.setdefault(hardware, name)
        return found

    async def _publish(self, spec: PlatformConfigSpec) -> None:
        await put(self.state, *ids.PLATFORM_CONFIG, spec, owner=BOOT_CONTROLLER)
        await put(self.state, *ids.PLATFORM_METADATA, spec.metadata, owner=BOOT_CONTROLLER)

    async def _publish_kept(self) -> None:
        path = await self._find_copy()
        try:
            spec = read_copy(path)
        except FileNotFoundError:
            return
        except (OSError, UserError) as error:
            self.log.warning(f"{path} is not used: {error}")
            return
        await put(self.state, *ids.PLATFORM_CONFIG_CACHED, spec, owner=BOOT_CONTROLLER)
        if not await self._has_answered():
            await put(self.state, *ids.PLATFORM_METADATA, spec.metadata, owner=BOOT_CONTROLLER)

    async def _has_answered(self) -> bool:
        try:
            await self.state.get(*ids.PLATFORM_CONFIG)
        except NotFoundError:
            return False
        return True

    async def _keep(self) -> None:
        """Write each change to STATE, once that is mounted."""
        path, kept = await self._find_copy(), PlatformConfigSpec()
        while True:
            found = await wait_for(self.state, *ids.PLATFORM_CONFIG, lambda one: one.spec != kept)  # noqa: B023
            kept = found.spec
            try:
                await trio.to_thread.run_sync(write_copy, path, kept)
            except OSError as error:
                self.log.warning(f"{path} can't be written: {error.strerror}")

    async def _find_copy(self) -> Path:
        await wait_for(self.state, kinds.VOLUME_MOUNT_STATUS, name_request(STATE.label), lambda _: True)
        return self.state_dir / FILE


def read_copy(path: Path) -> PlatformConfigSpec:
    """What was kept. OSError; UserError when it is damaged."""
    spec = PlatformConfigSpec()
    value_to_message(spec, read_yaml(path.read_bytes(), path.name), path.name)
    return spec


def write_copy(path: Path, spec: PlatformConfigSpec) -> None:
    """Keep it for the next boot, unless that has it already. OSError."""
    data = spec_to_yaml(kinds.PLATFORM_CONFIG, spec).encode()
    try:
        if path.read_bytes() == data:
            return
    except FileNotFoundError:
        pass
    replace_durably(path, [data], mode=0o600)


def make_source(*, state: State, files: Files, mounts: Mounts, arguments: Cmdline, report: Report) -> Source:
    """Where clouds keep configs and metadata; ``report`` is called with what is tried again."""
    return Source(
        server=MetadataServer(state=state, report=report),
        volume=VolumeSource(state=state, mounts=mounts, report=report),
        files=files,
        arguments=arguments,
        environment=find_environment(arguments),
    )
