"""Netstat: the sockets of the node and, on request, of its pods."""

import errno
import os
import threading
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.machined.api.pump import in_thread
from talos.machined.node.ports.node import Node
from talos.system.files import Files
from talos.system.proc.sockets import (
    PROTOCOLS,
    Owner,
    Socket,
    read_namespaces,
    read_socket_owners,
    read_sockets,
)

NAMESPACE_DIR = "/run/netns"
"""The container runtime's directory of pods' network namespaces, by name."""
HOST = "host"
ENDED = frozenset({errno.ENOENT, errno.EINVAL, errno.ENAMETOOLONG})
"""Errors of a namespace that is gone; with EINVAL its file is still there, which is none any more."""


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def netstat(request: pb.NetstatRequest, _call: Call) -> pb.NetstatResponse:
        directory = node.workloads.find_path(NAMESPACE_DIR)
        return await in_thread(list_sockets, node.ports.files, request, directory)

    return {"Netstat": netstat}


def list_sockets(
    files: Files, request: pb.NetstatRequest, directory: str = NAMESPACE_DIR
) -> pb.NetstatResponse:
    """The requested sockets; an empty request means all of the host's.

    RpcError: NOT_FOUND for a network namespace that isn't there, INVALID_ARGUMENT for what is no name of one.
    """
    wanted = [name for name in PROTOCOLS if getattr(request.l4proto, name)] or list(PROTOCOLS)
    owners = read_socket_owners(files) if request.feature.pid else {}
    records: list[pb.ConnectRecord] = []
    chosen = _choose_namespaces(files, request.netns, directory)
    processes = read_namespaces(files) if len(chosen) > 1 or HOST not in chosen else {}
    for namespace in chosen:
        try:
            sockets = _read_namespace(files, namespace, wanted, directory, processes)
        except OSError as error:
            if error.errno not in ENDED:
                raise
            if namespace in request.netns.netns:
                raise RpcError(Code.NOT_FOUND, f"network namespace {namespace!r} is not there") from None
            continue  # its pod has ended since they were listed
        records += [
            _make_record(socket, namespace, owners)
            for socket in sockets
            if _is_wanted(socket, request.filter)
        ]
    return pb.NetstatResponse(messages=[pb.Netstat(connectrecord=records)])


def _choose_namespaces(files: Files, request: pb.NetstatRequest.NetNS, directory: str) -> list[str]:
    """Each of them once, however often it is named."""
    named = list(dict.fromkeys(request.netns))
    if request.allnetns:
        named = _list_names(files, directory)
    with_host = request.hostnetwork or request.allnetns or not named
    return list(dict.fromkeys([HOST, *named])) if with_host else named


def _list_names(files: Files, directory: str) -> list[str]:
    try:
        return list(files.list(directory))
    except FileNotFoundError:
        return []


def _read_namespace(
    files: Files, name: str, protocols: Sequence[str], directory: str, processes: Mapping[int, int]
) -> list[Socket]:
    """The sockets of one of them; ``processes`` has one of each by its inode. OSError."""
    if name == HOST:
        return read_sockets(files, protocols, "/proc/self/net")
    if "/" in name or "\0" in name or name in {"", ".", ".."}:
        raise RpcError(Code.INVALID_ARGUMENT, f"{name!r} is not the name of a network namespace")
    path = f"{directory}/{name}"
    pid = processes.get(Path(path).stat().st_ino)
    if pid is not None:
        return read_sockets(files, protocols, f"/proc/{pid}/net")
    return _read_inside(files, path, protocols)


def _read_inside(files: Files, path: str, protocols: Sequence[str]) -> list[Socket]:
    """For a namespace without a process: by a thread that enters it and ends there.

    A pooled thread would stay in the namespace for its next task.
    """
    found: list[Socket] = []
    problems: list[OSError] = []

    def enter_and_read() -> None:
        try:
            with FileIO(path) as namespace:
                os.setns(namespace, os.CLONE_NEWNET)
            found.extend(read_sockets(files, protocols, "/proc/thread-self/net"))
        except OSError as error:
            problems.append(error)

    thread = threading.Thread(target=enter_and_read, name="netns")
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return found


def _is_wanted(socket: Socket, choice: pb.NetstatRequest.Filter) -> bool:
    match choice:
        case pb.NetstatRequest.CONNECTED:
            return socket.is_connected
        case pb.NetstatRequest.LISTENING:
            return socket.is_listening
        case _:
            return True


def _make_record(socket: Socket, namespace: str, owners: Mapping[int, Owner]) -> pb.ConnectRecord:
    owner = owners.get(socket.inode) if socket.inode else None
    return pb.ConnectRecord(
        l4proto=socket.protocol,
        localip=socket.local_ip,
        localport=socket.local_port,
        remoteip=socket.remote_ip,
        remoteport=socket.remote_port,
        state=pb.ConnectRecord.State.Name(socket.state) if socket.state <= pb.ConnectRecord.CLOSING else None,
        txqueue=socket.tx_queue,
        rxqueue=socket.rx_queue,
        tr=pb.ConnectRecord.TimerActive.Name(socket.timer)
        if socket.timer <= pb.ConnectRecord.PROBE
        else None,
        timerwhen=socket.timer_when,
        retrnsmt=socket.retransmits,
        uid=socket.uid,
        timeout=socket.timeout,
        inode=socket.inode,
        ref=socket.ref,
        pointer=socket.pointer,
        # Always set: existing clients read its pid unconditionally.
        process=pb.ConnectRecord.Process(pid=owner.pid, name=owner.name)
        if owner
        else pb.ConnectRecord.Process(),
        netns=namespace,
    )
