"""Every gRPC service of the node's API that machined owns."""

from collections.abc import Callable, Mapping
from typing import Any, Never

from google.protobuf.descriptor import ServiceDescriptor

from talos.api.cluster import cluster_pb2
from talos.api.machine import debug_pb2, image_pb2, lifecycle_pb2, lvm_pb2, machine_pb2, md_pb2
from talos.api.machine import storage_pb2 as machine_storage_pb2
from talos.api.rpc import Code, Handler, RpcError, Service
from talos.api.storage import storage_pb2
from talos.machined.api import (
    apply_config,
    capture,
    client_config,
    containers,
    debug,
    disks,
    etcd,
    events,
    files,
    health,
    images,
    logs,
    lvm,
    md,
    meta,
    monitoring,
    netstat,
    power,
    processes,
    service_control,
    system,
    upgrade,
    verification,
    wipe,
)
from talos.machined.node.ports.node import Node

_NOT_HERE = "method is not supported in {} mode"

type Group = Callable[[Node], Mapping[str, Handler]]

_MACHINE: tuple[Group, ...] = (
    system.handlers,
    service_control.handlers,
    logs.handlers,
    events.handlers,
    monitoring.handlers,
    processes.handlers,
    netstat.handlers,
    containers.handlers,
    capture.handlers,
    images.machine_handlers,
    files.handlers,
    power.handlers,
    meta.handlers,
    client_config.handlers,
    apply_config.handlers,
    etcd.handlers,
    upgrade.machine_handlers,
)

_GROUPS: Mapping[ServiceDescriptor, tuple[Group, ...]] = {
    machine_pb2.DESCRIPTOR.services_by_name["MachineService"]: _MACHINE,
    machine_storage_pb2.DESCRIPTOR.services_by_name["StorageService"]: (files.storage_handlers,),
    storage_pb2.DESCRIPTOR.services_by_name["StorageService"]: (disks.handlers, wipe.handlers),
    image_pb2.DESCRIPTOR.services_by_name["ImageService"]: (images.handlers, verification.handlers),
    lifecycle_pb2.DESCRIPTOR.services_by_name["LifecycleService"]: (upgrade.lifecycle_handlers,),
    debug_pb2.DESCRIPTOR.services_by_name["DebugService"]: (debug.handlers,),
    lvm_pb2.DESCRIPTOR.services_by_name["LVMService"]: (lvm.handlers,),
    md_pb2.DESCRIPTOR.services_by_name["MDService"]: (md.handlers,),
    cluster_pb2.DESCRIPTOR.services_by_name["ClusterService"]: (health.handlers,),
}


def make_services(node: Node) -> tuple[Service, ...]:
    """The services, each with a handler for every method.

    The State and the controllers' graph (cosi.resource.State, inspect.InspectService) are not
    among them, ``talos.resource`` makes those.
    """
    return tuple(_make_service(descriptor, groups, node) for descriptor, groups in _GROUPS.items())


def _make_service(descriptor: ServiceDescriptor, groups: tuple[Group, ...], node: Node) -> Service:
    found: dict[str, Handler] = {}
    for group in groups:
        additional = group(node)
        twice = found.keys() & additional.keys()
        if twice:
            raise TypeError(f"two handlers for {descriptor.full_name}: {', '.join(sorted(twice))}")
        found |= additional
    for method in descriptor.methods:
        name = f"{descriptor.full_name}/{method.name}"
        if not node.platform.allows(name):
            found[method.name] = _make_refusal(Code.FAILED_PRECONDITION, _NOT_HERE.format(node.platform.mode))
        elif method.name not in found:
            found[method.name] = _make_refusal(
                Code.UNIMPLEMENTED, f"{name} is not supported by this version yet"
            )
    return Service(descriptor, found)


def _make_refusal(code: Code, text: str) -> Handler:
    """For a method that this version or this platform has no function for."""

    async def refuse(*args: Any) -> Never:
        del args
        raise RpcError(code, text)

    return refuse
