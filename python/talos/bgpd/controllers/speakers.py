"""BGPInstanceConfig → RouteSpec, BGPPeerStatus: one speaker for each instance."""

from collections.abc import Mapping
from typing import override

import trio

from talos.api.definitions.network_pb2 import RouteSpecSpec
from talos.bgpd.bfd.port import BfdPort
from talos.bgpd.rib.imports import find_imports
from talos.bgpd.settings import InstanceSettings, NotReadyError, make_settings
from talos.bgpd.speaker import Speaker
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.system.logging import Log

MIN_INTERVAL = 0.2
"""Seconds between rounds: a peer's routes come in many messages."""


class BGPController(Controller):
    """Runs speakers, and writes what they have."""

    name = "network.BGPController"
    inputs = (Input(kinds.BGP_INSTANCE_CONFIG), Input(kinds.LINK_STATUS), Input(kinds.ADDRESS_STATUS))
    outputs = (
        Output(kinds.BGP_PEER_STATUS),
        Output(kinds.ROUTE_SPEC, shared=True, namespace=ids.NETWORK_CONFIG),
    )

    def __init__(self, log: Log) -> None:
        self._log = log
        self._speakers: dict[str, Speaker] = {}
        self._written: dict[str, RouteSpecSpec] = {}

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        """Follow the config until cancelled."""
        self._speakers.clear()
        self._written.clear()
        bfd = BfdPort(self._log)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bfd.serve)
            async for _ in runtime.events():
                await self._follow(runtime, bfd, nursery)
                async with runtime.track_outputs(kinds.BGP_PEER_STATUS):
                    for speaker in self._speakers.values():
                        for status_id, status in speaker.make_statuses().items():
                            await runtime.put(kinds.BGP_PEER_STATUS, status_id, status)
                await self._write_routes(runtime)
                runtime.reset_backoff()
                await trio.sleep(MIN_INTERVAL)

    async def _follow(self, runtime: ControllerRuntime, bfd: BfdPort, nursery: trio.Nursery) -> None:
        links = {item.id: item.spec for item in await runtime.list(kinds.LINK_STATUS)}
        addresses = [item.spec for item in await runtime.list(kinds.ADDRESS_STATUS)]
        instances = await runtime.list(kinds.BGP_INSTANCE_CONFIG)
        for name in self._speakers.keys() - {instance.id for instance in instances}:
            self._stop(name)
        for instance in instances:
            log = self._log.bind(instance=instance.id)
            try:
                settings = make_settings(instance.id, instance.spec, links, addresses)
            except NotReadyError as error:
                log.once(f"the instance waits: {error}", key="ready")
                continue
            self._apply(settings, Speaker(settings, bfd, runtime.queue_reconcile, log), nursery)
        ribs = {name: speaker.rib for name, speaker in self._speakers.items()}
        for speaker in self._speakers.values():
            speaker.import_routes(find_imports(speaker.settings.imports, ribs))

    def _apply(self, settings: InstanceSettings, fresh: Speaker, nursery: trio.Nursery) -> None:
        speaker = self._speakers.get(settings.name)
        if speaker is not None and speaker.settings.identity == settings.identity:
            if speaker.settings != settings:
                speaker.configure(settings)
            return
        self._stop(settings.name)
        self._speakers[settings.name] = fresh
        nursery.start_soon(fresh.run)

    def _stop(self, name: str) -> None:
        if speaker := self._speakers.pop(name, None):
            speaker.scope.cancel()

    async def _write_routes(self, runtime: ControllerRuntime) -> None:
        """Write what has changed. What a process before this one has left goes in the first round."""
        wanted: dict[str, RouteSpecSpec] = {}
        for speaker in self._speakers.values():
            speaker.update_routes()
            wanted.update(speaker.routes)
        if not self._written:
            async with runtime.track_outputs(kinds.ROUTE_SPEC):
                await self._put(runtime, wanted)
        else:
            for route_id in self._written.keys() - wanted.keys():
                await runtime.remove(kinds.ROUTE_SPEC, route_id, namespace=ids.NETWORK_CONFIG)
            await self._put(runtime, wanted)
        self._written = wanted

    async def _put(self, runtime: ControllerRuntime, wanted: Mapping[str, RouteSpecSpec]) -> None:
        for route_id, spec in wanted.items():
            if self._written.get(route_id) != spec:
                await runtime.put(kinds.ROUTE_SPEC, route_id, spec, namespace=ids.NETWORK_CONFIG)
