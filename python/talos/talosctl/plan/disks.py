"""What a config makes of a node's disks, derived from the node's resources by the node's own decisions."""

from google.protobuf.message import Message

from talos.api.rpc import RpcError, format_reason
from talos.api.specs import parse_spec
from talos.client.session import Session
from talos.config.documents.block.raw_volume import RawVolumeConfig
from talos.config.documents.block.swap_volume import SwapVolumeConfig
from talos.config.documents.block.user_volume import UserVolumeConfig
from talos.config.documents.block.volume import VolumeConfig
from talos.config.documents.storage.lvm_logical_volume import LVMLogicalVolumeConfig
from talos.config.documents.storage.lvm_volume_group import LVMVolumeGroupConfig
from talos.config.documents.storage.raid_array import RAIDArrayConfig
from talos.config.effective.machine import is_image_cache_enabled
from talos.config.model import Config
from talos.disks.lvm.status import parse_report
from talos.disks.preview.copies import FoundDevices
from talos.disks.preview.preview import DiskPreview, preview_disks
from talos.resource import kinds
from talos.resource.kind import Kind
from talos.resource.resource import Resource, make_resource
from talos.system.errors import UserError
from talos.talosctl.client.health import SessionCalls

_DOCUMENTS = (
    VolumeConfig,
    UserVolumeConfig,
    RawVolumeConfig,
    SwapVolumeConfig,
    LVMVolumeGroupConfig,
    LVMLogicalVolumeConfig,
    RAIDArrayConfig,
)
"""What partitions, arrays and volume groups come from, beside ``machine.disks`` and the cache of images."""


async def plan_disks(session: Session, node: str, before: Config, after: Config) -> DiskPreview:
    """The node's disks before and after; none when the two configs have the same volumes.

    What can't be read is a problem of the result: the rest of a plan does not depend on it.
    """
    if _pick(before) == _pick(after):
        return DiskPreview()
    try:
        return await preview_disks(await _read_devices(SessionCalls(session), node), before, after)
    except (RpcError, UserError) as error:
        return DiskPreview(problems=[f"what becomes of the disks is not known: {format_reason(error)}"])


def _pick(config: Config) -> object:
    """All that volumes are made by."""
    documents = [document for kind in _DOCUMENTS for document in config.find_all(kind)]
    return documents, config.machine and config.machine.disks, is_image_cache_enabled(config)


async def _read_devices(calls: SessionCalls, node: str) -> FoundDevices:
    disks = await _read(calls, node, kinds.DISK)
    return FoundDevices(
        volumes=await _read(calls, node, kinds.DISCOVERED_VOLUME),
        disks={disk.id: disk.spec for disk in disks},
        arrays=await _read(calls, node, kinds.MD_ARRAY_STATUS),
        lvm=parse_report(
            await calls.specs(node, kinds.LVM_PHYSICAL_VOLUME_STATUS),
            await calls.specs(node, kinds.LVM_VOLUME_GROUP_STATUS),
            await calls.specs(node, kinds.LVM_LOGICAL_VOLUME_STATUS),
        ),
    )


async def _read[S: Message](calls: SessionCalls, node: str, kind: Kind[S]) -> list[Resource[S]]:
    return [
        make_resource(kind, one.metadata.id, parse_spec(kind.spec, one))
        for one in await calls.resources(node, kind)
    ]
