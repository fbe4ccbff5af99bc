"""storage.StorageService: the disks, from the State."""

from collections.abc import Mapping

from google.protobuf.empty_pb2 import Empty

from talos.api.definitions import block_pb2
from talos.api.rpc import Call, Handler
from talos.api.storage import storage_pb2 as pb
from talos.disks.installation import find_system_disk
from talos.machined.node.ports.node import Node
from talos.resource.kinds import DISK
from talos.resource.resource import Resource


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of storage.StorageService."""

    async def disks(_request: Empty, _call: Call) -> pb.DisksResponse:
        disks = await node.state.list(DISK)
        system = await find_system_disk(node.state)
        ids = {
            system,
            *(member for disk in disks if disk.id == system for member in disk.spec.secondary_disks),
        }
        found = [make_disk(disk, is_system=disk.id in ids) for disk in disks]
        return pb.DisksResponse(messages=[pb.Disks(disks=found)])

    return {"Disks": disks}


def make_disk(disk: Resource[block_pb2.DiskSpec], *, is_system: bool) -> pb.Disk:
    """A disk as the API's message."""
    spec = disk.spec
    return pb.Disk(
        size=spec.size,
        model=spec.model,
        device_name=spec.dev_path,
        serial=spec.serial,
        modalias=spec.modalias,
        uuid=spec.uuid,
        wwid=spec.wwid,
        type=_choose_type(spec),
        bus_path=spec.bus_path,
        system_disk=is_system,
        subsystem=spec.sub_system,
        readonly=spec.readonly,
    )


def _choose_type(spec: block_pb2.DiskSpec) -> pb.Disk.DiskType:
    if spec.cdrom:
        return pb.Disk.CD
    match spec.transport:
        case "nvme":
            return pb.Disk.NVME
        case "mmc":
            return pb.Disk.SD
        case "" if not spec.rotational:
            return pb.Disk.UNKNOWN
        case _:
            return pb.Disk.HDD if spec.rotational else pb.Disk.SSD
