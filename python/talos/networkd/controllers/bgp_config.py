"""BGPInstanceConfig: the instances of the machine config, checked against each other."""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import override

from google.protobuf.duration_pb2 import Duration as WireDuration

from talos.api.addresses import make_ip, make_prefix
from talos.api.common.common_pb2 import NetIP
from talos.api.definitions import enums_pb2
from talos.api.definitions.network_pb2 import BGPBFDConfigSpec, BGPInstanceConfigSpec, BGPNeighborConfigSpec
from talos.config.active import PARTIAL_CONFIG_INPUTS, read_partial_config
from talos.config.documents.network.bgp_instance import BGPInstanceConfig, BGPNeighborConfig
from talos.config.documents.network.vrf import VRFConfig
from talos.config.values import Address, Duration
from talos.networkd.spec_makers import parse_table
from talos.resource import kinds
from talos.resource.controller.controller import ControllerRuntime, Output, Reconciler
from talos.system.logging import Log


class InstancesError(Exception):
    """The instances can't be together; none of them is changed."""


class BGPInstanceConfigController(Reconciler):
    """MachineConfig → BGPInstanceConfig."""

    name = "network.BGPInstanceConfigController"
    inputs = PARTIAL_CONFIG_INPUTS
    outputs = (Output(kinds.BGP_INSTANCE_CONFIG),)

    def __init__(self, log: Log) -> None:
        self._log = log

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Follow the config; one mistake keeps all instances as they are."""
        config = await read_partial_config(runtime)
        documents = config.find_all(BGPInstanceConfig) if config else ()
        vrfs = config.find_all(VRFConfig) if config else ()
        tables = {document.name: parse_table(document.table) for document in vrfs}
        try:
            specs = make_instances(documents, tables)
        except InstancesError as error:
            self._log.once(f"BGP instances stay as they are: {error}", level="error")
            return
        async with runtime.track_outputs():
            for name, spec in specs.items():
                await runtime.put(kinds.BGP_INSTANCE_CONFIG, name, spec)


def make_instances(
    documents: Sequence[BGPInstanceConfig], tables: Mapping[str, int]
) -> dict[str, BGPInstanceConfigSpec]:
    """The specs by their names; ``tables`` are those of the VRFs. InstancesError."""
    domains: dict[str, str] = {}
    for document in documents:
        vrf = document.vrf or ""
        if vrf and vrf not in tables:
            raise InstancesError(f"{document.name}: there is no VRFConfig {vrf}")
        if vrf in domains:
            domain = f"VRF {vrf}" if vrf else "default routing domain"
            raise InstancesError(f"{domains[vrf]} and {document.name} are both in the {domain}")
        domains[vrf] = document.name
    _check_imports({document.name: _find_sources(document) for document in documents})
    return {
        document.name: make_instance(document, tables.get(document.vrf or "", enums_pb2.TABLE_MAIN))
        for document in documents
    }


def _find_sources(document: BGPInstanceConfig) -> list[str]:
    return [route.bgp_instance for route in document.import_routes or ()]


def _check_imports(sources: Mapping[str, Sequence[str]]) -> None:
    """Each source has to be there, and none may import, over any number of others, from itself."""
    for name, wanted in sources.items():
        for source in wanted:
            if source not in sources:
                raise InstancesError(f"{name} imports from {source}, which is not there")
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        raise InstancesError(f"imports go in a circle: {' -> '.join(reversed(error.args[1]))}") from None


def make_instance(document: BGPInstanceConfig, table: int) -> BGPInstanceConfigSpec:
    """One instance."""
    spec = BGPInstanceConfigSpec(
        local_asn=document.local_asn,
        router_id=_make_address(document.router_id),
        route_source=_make_address(document.route_source),
        advertise_links=document.advertise or (),
        multipath=bool(document.multipath),
        max_paths=document.max_paths or 0,
        neighbors=list(_make_neighbors(document.neighbors or ())),
        vrf=document.vrf or "",
        install_routes=document.install_routes is not False,
    )
    setattr(spec, "vrf_table", table)  # noqa: B010 - any number is a table's
    for route in document.import_routes or ():
        spec.import_routes.add(
            bgp_instance=route.bgp_instance,
            prefixes=[make_prefix(prefix.interface.network) for prefix in route.prefixes],
        )
    return spec


def _make_neighbors(documents: Sequence[BGPNeighborConfig]) -> Iterator[BGPNeighborConfigSpec]:
    for document in documents:
        spec = BGPNeighborConfigSpec(
            address=_make_address(document.address),
            link=document.link or "",
            peer_asn=document.peer_asn or 0,
            hold_time=_make_duration(document.hold_time),
            local_asn=document.local_asn or 0,
            passive=bool(document.passive),
        )
        if bfd := document.bfd:
            spec.bfd.CopyFrom(
                BGPBFDConfigSpec(
                    transmit_interval=_make_duration(bfd.transmit_interval),
                    receive_interval=_make_duration(bfd.receive_interval),
                    detect_multiplier=bfd.detect_multiplier or 0,
                )
            )
        yield spec


def _make_address(address: Address | None) -> NetIP:
    return make_ip(address.ip if address else None)


def _make_duration(duration: Duration | None) -> WireDuration:
    wire = WireDuration()
    if duration:
        wire.FromNanoseconds(round(duration.seconds * 1e9))
    return wire
