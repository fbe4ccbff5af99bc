"""Volumes of a node: room, and whether they are sound."""

from talos.api.definitions import enums_pb2 as enums
from talos.api.machine.storage_pb2 import StorageServiceStatfsRequest, StorageServiceStatfsResponse
from talos.api.specs import parse_spec
from talos.resource import kinds
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.metrics.families import Number, Numbers

SUCCESS = "success"
"""The status of a filesystem in which a scrub found no damage."""


async def fetch_volumes(calls: SessionCalls, node: str) -> Numbers:
    """The volumes' numbers; RpcError."""
    return [
        *await _fetch_room(calls, node),
        *await _fetch_states(calls, node),
        *await _fetch_scrubs(calls, node),
    ]


async def _fetch_room(calls: SessionCalls, node: str) -> Numbers:
    numbers: list[Number] = []
    for mount in await calls.specs(node, kinds.BLOCK_MOUNT_STATUS):
        if not mount.source or mount.detached:
            continue
        request = StorageServiceStatfsRequest(path=mount.target)
        path = "/machine.StorageService/Statfs"
        free = await calls.unary(node, path, request, StorageServiceStatfsResponse)
        labels = {"volume": mount.spec.volume_id}
        numbers += [
            ("talos_volume_size_bytes", free.size, labels),
            ("talos_volume_available_bytes", free.available, labels),
        ]
    return numbers


async def _fetch_states(calls: SessionCalls, node: str) -> Numbers:
    return [
        (
            "talos_volume_failed",
            parse_spec(kinds.VOLUME_STATUS.spec, volume).phase == enums.VOLUME_PHASE_FAILED,
            {"volume": volume.metadata.id},
        )
        for volume in await calls.resources(node, kinds.VOLUME_STATUS)
    ]


async def _fetch_scrubs(calls: SessionCalls, node: str) -> Numbers:
    numbers: list[Number] = []
    for scrub in await calls.resources(node, kinds.FS_SCRUB_STATUS):
        spec = parse_spec(kinds.FS_SCRUB_STATUS.spec, scrub)
        labels = {"volume": scrub.metadata.id}
        numbers += [
            ("talos_volume_scrub_success", spec.status == SUCCESS, labels),
            ("talos_volume_scrub_timestamp_seconds", spec.time.seconds, labels),
        ]
    return numbers
