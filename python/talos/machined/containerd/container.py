"""A container of the system: made from an image, run, and removed with all that is left of it."""

import json
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import override

import trio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty

from talos.api.containerd import containers_pb2, mount_pb2, runc_options_pb2, snapshots_pb2, tasks_pb2
from talos.api.rpc import Code, RpcError
from talos.images.manifest import ImageConfig
from talos.machined.containerd.client import SNAPSHOTTER, WORK_TIMEOUT, Containerd
from talos.machined.containerd.spec import SPEC_TYPE, ContainerSpec, make_oci_spec
from talos.machined.containerd.store import Image, has_snapshot, remove_snapshot, unpack
from talos.machined.node.child import Child
from talos.system.process import set_oom_score

RUNTIME = "io.containerd.runc.v2"
SHIM_GROUP = "podruntime/shim"
REMOVE_TIMEOUT = 30.0
"""Seconds until what is left of a container is left to the next start."""
REMOVE_RETRY = 1.0
"""Seconds between two attempts to remove a container, while containerd is down."""
KILL_TIMEOUT = 10.0
"""Seconds for the processes of a container that was killed to end."""
EXIT_RETRY = 1.0
"""Seconds between two attempts to fetch an exit code, while containerd is down."""
EXIT_TIMEOUT = 30.0
"""Seconds after which the exit code of a container stays unknown."""
UNKNOWN_EXIT = 255
_PIDFD_SIGNAL_PROCESS_GROUP = 1 << 2
OVERLAYS = Path("/run/overlays")
"""What containers without an image write to their root, in memory; a folder for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a container runs: its id, its control group, and the named pipes of its output and input."""

    id: str
    group: str
    oom_score_adj: int
    output: str
    input: str = ""
    """Empty: it has none."""
    shim_group: str = ""
    """Empty: the shim stays in containerd's group."""


class ContainerProcess(Child):
    """The first process of a container.

    It is its shim's child: a pidfd is how PID 1 signals it and sees that it ended, also while containerd
    itself is down.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(pid)
        self.pidfd = os.pidfd_open(pid)

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to its process group, unless it has ended itself; OSError before Linux 6.9."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number, None, _PIDFD_SIGNAL_PROCESS_GROUP)

    @override
    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)


@asynccontextmanager
async def run_container(
    containerd: Containerd, spec: ContainerSpec, image: Image | None, placement: Placement
) -> AsyncGenerator[ContainerProcess]:
    """Run a container for as long as the context is open; then nothing of it is left.

    It has an image unless its spec names another root.

    UserError: the image can't be run so.
    RpcError: containerd reports an error, or isn't there.
    """
    await remove_container(containerd, placement.id)
    try:
        child = await _create(containerd, spec, image, placement)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_watch, containerd, placement.id, child)
                yield child
                nursery.cancel_scope.cancel()
        finally:
            if not child.has_ended:  # it is killed below, and its descriptor is closed
                child.finish(UNKNOWN_EXIT)
            os.close(child.pidfd)
    finally:
        with trio.move_on_after(REMOVE_TIMEOUT, shield=True), suppress(RpcError):
            await remove_container(containerd, placement.id)


async def _create(
    containerd: Containerd, spec: ContainerSpec, image: Image | None, placement: Placement
) -> ContainerProcess:
    config = image.config if image else ImageConfig(diff_ids=())
    document = make_oci_spec(spec, config, placement.group)
    async with containerd.leased() as leased:
        if image:
            mounts = await _prepare_snapshot(leased, image, placement.id)
        else:
            mounts = [await trio.to_thread.run_sync(_make_overlay, spec.rootfs, OVERLAYS / placement.id)]
        container = containers_pb2.Container(
            id=placement.id,
            image=spec.image,
            runtime=containers_pb2.Container.Runtime(name=RUNTIME),
            spec=AnyMessage(type_url=SPEC_TYPE, value=json.dumps(document).encode()),
            snapshotter=SNAPSHOTTER if image else "",
            snapshot_key=placement.id if image else "",
        )
        create = containers_pb2.CreateContainerRequest(container=container)
        await leased.call("containers.v1.Containers/Create", create, containers_pb2.CreateContainerResponse)
    options = runc_options_pb2.Options(shim_cgroup=placement.shim_group and f"/{placement.shim_group}")
    task = await containerd.call(
        "tasks.v1.Tasks/Create",
        tasks_pb2.CreateTaskRequest(
            container_id=placement.id,
            rootfs=mounts,
            terminal=spec.has_terminal,
            stdin=placement.input,
            stdout=placement.output,
            stderr="" if spec.has_terminal else placement.output,
            options=AnyMessage(type_url=options.DESCRIPTOR.full_name, value=options.SerializeToString()),
        ),
        tasks_pb2.CreateTaskResponse,
        timeout=WORK_TIMEOUT,
    )
    child = ContainerProcess(containerd.find_pid(task.pid))
    try:
        set_oom_score(child.pid, placement.oom_score_adj)
        start = tasks_pb2.StartRequest(container_id=placement.id)
        await containerd.call("tasks.v1.Tasks/Start", start, tasks_pb2.StartResponse, timeout=WORK_TIMEOUT)
    except BaseException:
        os.close(child.pidfd)
        raise
    return child


async def hold_snapshot(containerd: Containerd, image: Image, id: str) -> Sequence[mount_pb2.Mount]:
    """A container that is never run, for its snapshot above an image's layers: the mounts of that.

    :func:`remove_container` removes both. UserError, RpcError.
    """
    container = containers_pb2.Container(
        id=id,
        image=image.name,
        runtime=containers_pb2.Container.Runtime(name=RUNTIME),
        spec=AnyMessage(type_url=SPEC_TYPE, value=b"{}"),
        snapshotter=SNAPSHOTTER,
        snapshot_key=id,
    )
    create = containers_pb2.CreateContainerRequest(container=container)
    async with containerd.leased() as leased:
        mounts = await _prepare_snapshot(leased, image, id)
        await leased.call("containers.v1.Containers/Create", create, containers_pb2.CreateContainerResponse)
    return mounts


async def _prepare_snapshot(containerd: Containerd, image: Image, key: str) -> Sequence[mount_pb2.Mount]:
    if not await has_snapshot(containerd, image.snapshot):
        await unpack(containerd, image)
    request = snapshots_pb2.PrepareSnapshotRequest(snapshotter=SNAPSHOTTER, key=key, parent=image.snapshot)
    reply = snapshots_pb2.PrepareSnapshotResponse
    return (await containerd.call("snapshots.v1.Snapshots/Prepare", request, reply)).mounts


def _make_overlay(root: str, folder: Path) -> mount_pb2.Mount:
    """Empty folders above a root that can't be written to, in which the runtime makes mount points."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("upper", "work"):
        (folder / name).mkdir(parents=True)
    options = [f"lowerdir={root}", f"upperdir={folder}/upper", f"workdir={folder}/work"]
    return mount_pb2.Mount(type="overlay", source="overlay", options=options)


async def _watch(containerd: Containerd, id: str, child: ContainerProcess) -> None:
    """Wait for the end of the process, and for its exit code."""
    await trio.lowlevel.wait_readable(child.pidfd)
    code = UNKNOWN_EXIT
    request = tasks_pb2.WaitRequest(container_id=id)
    with trio.move_on_after(EXIT_TIMEOUT):
        while True:
            try:
                reply = await containerd.call("tasks.v1.Tasks/Wait", request, tasks_pb2.WaitResponse)
            except RpcError as error:
                if error.code is Code.NOT_FOUND:
                    break
                await trio.sleep(EXIT_RETRY)
            else:
                code = reply.exit_status
                break
    child.finish(code)


async def remove_at_end(containerd: Containerd, id: str) -> None:
    """Remove one that nothing starts again, also from a containerd that is just restarted."""
    with trio.move_on_after(REMOVE_TIMEOUT, shield=True):
        while True:
            try:
                return await remove_container(containerd, id)
            except RpcError as error:
                if error.code is not Code.UNAVAILABLE:
                    return None
            await trio.sleep(REMOVE_RETRY)


async def remove_container(containerd: Containerd, id: str) -> None:
    """Remove a container with its processes and its files, as far as they are there."""
    kill = tasks_pb2.KillRequest(container_id=id, signal=signal.SIGKILL, all=True)
    await containerd.remove("tasks.v1.Tasks/Kill", kill)
    with trio.move_on_after(KILL_TIMEOUT):
        wait = tasks_pb2.WaitRequest(container_id=id)
        await containerd.remove("tasks.v1.Tasks/Wait", wait, tasks_pb2.WaitResponse)
    await containerd.remove(
        "tasks.v1.Tasks/Delete",
        tasks_pb2.DeleteTaskRequest(container_id=id),
        tasks_pb2.DeleteResponse,
        WORK_TIMEOUT,
    )
    await containerd.remove(
        "containers.v1.Containers/Delete", containers_pb2.DeleteContainerRequest(id=id), Empty
    )
    await remove_snapshot(containerd, id)
    await trio.to_thread.run_sync(partial(shutil.rmtree, OVERLAYS / id, ignore_errors=True))
