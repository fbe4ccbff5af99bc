"""The processes that a node itself is made of: PID 1, its daemons, containerd, etcd, the kubelet.

What pods run is the kubelet's to count, and may have any name: it is left out by its parent.
"""

from collections.abc import Iterator, Sequence

from google.protobuf.empty_pb2 import Empty

from talos.api.machine import machine_pb2 as machine
from talos.api.metrics import metrics_pb2
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.metrics.families import Number, Numbers

COUNT_FILES = "/talos.metrics.MetricsService/CountFiles"
MAX_PIDS = 512
"""Processes whose files one call counts; a node has a dozen."""
SHIM = "containerd-shim"
_SERVICE = "/machine.MachineService/"


async def fetch_processes(calls: SessionCalls, node: str) -> Numbers:
    """Their numbers, those of the same name together; RpcError."""
    reply = await calls.unary(node, _SERVICE + "Processes", Empty(), machine.ProcessesResponse)
    found = list(find_own([one for part in reply.messages for one in part.processes]))
    request = metrics_pb2.CountFilesRequest(pids=[one.pid for _, one in found][:MAX_PIDS])
    counted = await calls.unary(node, COUNT_FILES, request, metrics_pb2.CountFilesResponse)
    totals: dict[tuple[str, str], float] = {}
    for name, one in found:
        for family, value in (
            ("talos_process_cpu_seconds_total", one.cpu_time),
            ("talos_process_resident_memory_bytes", one.resident_memory),
            ("talos_process_threads", one.threads),
            *((("talos_process_open_fds", files),) if (files := counted.files.get(one.pid)) else ()),
        ):
            totals[family, name] = totals.get((family, name), 0.0) + value
    return [_make_number(family, value, name) for (family, name), value in totals.items()]


def find_own(processes: Sequence[machine.ProcessInfo]) -> Iterator[tuple[str, machine.ProcessInfo]]:
    """Processes of the system, each with its service's name: children of PID 1 and of its services' shims."""
    shims = {one.pid for one in processes if is_shim(one) and " -namespace system " in f"{one.args} "}
    for one in processes:
        if one.pid == 1:
            yield "machined", one
        elif one.ppid == 1 and one.command == "containerd":
            yield "cri" if "/etc/cri/" in one.args else "containerd", one
        elif one.ppid == 1 or one.ppid in shims:
            yield one.command, one


def is_shim(process: machine.ProcessInfo) -> bool:
    """Whether it keeps a container for containerd."""
    return process.ppid == 1 and process.command == SHIM


def _make_number(family: str, value: float, name: str) -> Number:
    return family, value, {"process": name}
