"""``talos.metrics.MetricsService``: what the node counts, and what the kernel has of disks and sensors."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import trio
from google.protobuf.empty_pb2 import Empty

from talos.api.metrics import metrics_pb2
from talos.api.rpc import Call, Code, RpcError, Service
from talos.resource.controller.activity import Activities, make_part
from talos.system.block.health import read_health
from talos.system.files import Files
from talos.system.sensors import read_sensors

MAX_PIDS = 512
"""Processes whose files one call counts."""
SENSORS_TIMEOUT = 3.0
"""Seconds for all sensors: a disk that does not answer its driver keeps no other number from being read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What PID 1 counts: the rounds of its controllers, and the open watches of the State by type."""

    activities: Activities
    watches: Mapping[str, int]


def make_metrics_service(
    counts: Counts, files: Files, parts: Callable[[], Awaitable[Sequence[metrics_pb2.ReadResponse]]]
) -> Service:
    """The service; ``parts`` has those of the daemons."""
    reading = trio.CapacityLimiter(1)

    async def list_sensors() -> Sequence[metrics_pb2.Sensor]:
        with trio.move_on_after(SENSORS_TIMEOUT):
            return await trio.to_thread.run_sync(
                _make_sensors, files, abandon_on_cancel=True, limiter=reading
            )
        return ()

    async def read(_request: Empty, _call: Call) -> metrics_pb2.ReadResponse:
        reply = make_part(counts.activities)
        for part in await parts():
            reply.controllers.extend(part.controllers)
        reply.watches.extend(
            metrics_pb2.Watches(type=name, count=count) for name, count in counts.watches.items() if count
        )
        reply.disks.extend(
            metrics_pb2.Disk(name=disk.name, state=disk.state, errors=disk.errors)
            for disk in read_health(files)
        )
        reply.sensors.extend(await list_sensors())
        return reply

    return Service(
        metrics_pb2.DESCRIPTOR.services_by_name["MetricsService"], {"Read": read, "CountFiles": count_files}
    )


def _make_sensors(files: Files) -> Sequence[metrics_pb2.Sensor]:
    return [
        metrics_pb2.Sensor(
            chip=one.chip,
            device=one.device,
            name=one.name,
            label=one.label,
            kind=one.kind,
            value=one.value,
            critical=one.critical,
        )
        for one in read_sensors(files)
    ]


async def count_files(request: metrics_pb2.CountFilesRequest, _call: Call) -> metrics_pb2.CountFilesResponse:
    """The size of the folder of a process's descriptors is their number, since Linux 6.2."""
    if len(request.pids) > MAX_PIDS:
        raise RpcError(Code.INVALID_ARGUMENT, f"pids: {len(request.pids)} are too many, at most {MAX_PIDS}")
    found: dict[int, int] = {}
    for pid in request.pids:
        with suppress(OSError):
            if size := os.stat(f"/proc/{pid}/fd").st_size:  # noqa: PTH116 - done for every process
                found[pid] = size
    return metrics_pb2.CountFilesResponse(files=found)
