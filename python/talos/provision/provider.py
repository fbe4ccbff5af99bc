"""Clusters on this machine, of containers or of machines: create, show, list, destroy."""

import json
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from talos.provision.cluster import ClusterInfo, ClusterRequest, NodeInfo, NodeState, Provider
from talos.provision.container.checks import check_machine as check_containers
from talos.provision.host.checks import (
    INOTIFY_LIMIT,
    check_inotify,
    check_root,
    check_subnet,
    count_inotify,
    tool_path,
)
from talos.provision.host.leftovers import (
    launcher_of,
    remove_folder,
    remove_leftovers,
    stop_launcher,
)
from talos.provision.host.processes import from_data
from talos.provision.interpreter import interpreter_command
from talos.provision.progress import NoProgress, Progress
from talos.provision.qemu.checks import check_machine as check_qemu
from talos.provision.store import (
    ClusterFolder,
    check_free,
    folders,
    read_record,
    read_request,
    write_request,
)
from talos.system.errors import UserError
from talos.system.process import run_command

LAUNCHER_MODULE = "talos.provision.main"


def create(request: ClusterRequest, directory: Path, progress: Progress) -> ClusterInfo:
    """Make a cluster and start its nodes; returns when each node's PID 1 runs.

    UserError when this machine can't carry it; nothing is left behind then.
    """
    check(request, directory)
    folder = ClusterFolder(directory.resolve() / request.name)
    write_request(folder, request)
    try:
        progress.begin("making disks")
        make_disks(folder, request)
        progress.begin(f"starting {len(request.nodes)} nodes")
        _launch(folder, progress)
    except BaseException:
        stop_launcher(folder)
        remove_leftovers(folder, lambda _: None)
        remove_folder(folder)
        raise
    return _info(folder)


def check(request: ClusterRequest, directory: Path) -> None:
    """Whether the cluster can be created here; UserError names what is in the way, and the remedy."""
    check_root()
    check_free(ClusterFolder(directory.resolve() / request.name), request.name)
    if request.provider is Provider.QEMU:
        check_qemu(request)
    else:
        check_containers(request)
        if request.images is not None:
            check_inotify(len(request.nodes), count_inotify(), int(INOTIFY_LIMIT.read_text(encoding="ascii")))
    check_subnet(request.subnet, Path("/proc/net/route").read_text(encoding="ascii"))


def destroy(name: str, directory: Path, progress: Progress) -> bool:
    """Remove a cluster with all that belongs to it; may be repeated. False when there was none."""
    check_root()
    folder = ClusterFolder(directory.resolve() / name)
    progress.begin(f"stopping the nodes of {name}")
    stopped = stop_launcher(folder)
    progress.begin("cleaning up")
    remove_leftovers(folder, progress.detail)
    return remove_folder(folder) or stopped


def show(name: str, directory: Path) -> ClusterInfo:
    """A cluster as it is now; UserError when there is none of this name."""
    folder = ClusterFolder(directory.resolve() / name)
    if not folder.state.is_file():
        known = ", ".join(found.path.name for found in folders(directory)) or "none"
        raise UserError(f"there is no cluster {name}", where=str(directory), hint=f"clusters there: {known}")
    return _info(folder)


def reboot_node(name: str, directory: Path, nodes: Sequence[str] = ()) -> list[str]:
    """Have nodes (all unless named) end and start again at once; the names of those that restart.

    When the launcher has ended, all nodes are started, with a new one.
    """
    cluster = show(name, directory)
    unknown = set(nodes) - {node.name for node in cluster.nodes}
    if unknown:
        raise UserError(
            f"{name} has no node {', '.join(sorted(unknown))}",
            where="--node",
            hint=f"nodes: {', '.join(node.name for node in cluster.nodes)}",
        )
    restarted = [node.name for node in cluster.nodes if not nodes or node.name in nodes]
    folder = ClusterFolder(cluster.directory)
    launcher = launcher_of(folder)
    if launcher is None:
        # It crashed, or the machine was restarted: begin anew with what the disks hold.
        remove_leftovers(folder, lambda _: None)
        _launch(folder, NoProgress())
        return [node.name for node in cluster.nodes]
    for name in restarted:
        folder.reboot_mark(name).touch()
    launcher.send(signal.SIGUSR1)
    return restarted


def list_clusters(directory: Path) -> list[ClusterInfo]:
    """Every cluster of a state directory."""
    return [_info(folder) for folder in folders(directory.resolve())]


def make_disks(folder: ClusterFolder, request: ClusterRequest) -> None:
    """Every node's disks: files that take room as they fill."""
    for node in request.nodes:
        if request.provider is Provider.CONTAINER:
            make_file(folder.disk(node.name), node.disk)
            program = shutil.which("mkfs.xfs", path=tool_path()) or "mkfs.xfs"
            run_command([program, "-q", "-L", "EPHEMERAL", str(folder.disk(node.name))])
        for number, disk in enumerate(node.disks):
            make_file(folder.machine_disk(node.name, number), disk.size)


def make_file(path: Path, size: int) -> None:
    """A sparse file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.truncate(descriptor, size)
    finally:
        os.close(descriptor)


def _launch(folder: ClusterFolder, progress: Progress) -> None:
    """Start the launcher, detached from this process, and show what it reports until all nodes run."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    command = [*interpreter_command(LAUNCHER_MODULE), str(folder.path), str(write)]
    file = os.open(folder.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        starter = os.posix_spawn(
            command[0],
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, file, 1),
                (os.POSIX_SPAWN_DUP2, file, 2),
            ],
            setsid=True,
            setsigmask=[],
        )
        os.waitpid(starter, 0)
    finally:
        os.close(write)
        os.close(file)
    with os.fdopen(read, encoding="utf-8") as events:
        for line in events:
            event: dict[str, Any] = json.loads(line)
            match event["event"]:
                case "started":
                    progress.detail(f"{event['node']} has {event['address']}")
                case "failed":
                    raise UserError(event["message"], where="starting the nodes")
                case _:
                    return
    output = folder.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-10:]
    raise RuntimeError("the launcher ended before the nodes ran: " + "\n".join(output))


def _info(folder: ClusterFolder) -> ClusterInfo:
    request, record, launcher = read_request(folder), read_record(folder), launcher_of(folder)
    nodes: list[NodeInfo] = []
    for node in request.nodes:
        known = record.get("nodes", {}).get(node.name, {})
        process = from_data(known)
        alive = process is not None and process.is_alive()
        state = NodeState(known["state"]) if launcher and known else NodeState.STOPPED
        if state is NodeState.RUNNING and not alive:
            state = NodeState.UNKNOWN
        nodes.append(
            NodeInfo(
                name=node.name,
                role=node.role,
                address=node.address,
                cpus=node.cpus,
                memory=node.memory,
                disk=node.disk,
                state=state,
                pid=process.pid if process is not None and alive else 0,
                console=folder.console(node.name),
            )
        )
    return ClusterInfo(
        name=request.name,
        provider=request.provider.value,
        directory=folder.path,
        subnet=request.subnet,
        gateway=request.gateway,
        mtu=request.mtu,
        image=request.image,
        launcher=launcher.pid if launcher else 0,
        nodes=tuple(nodes),
    )
