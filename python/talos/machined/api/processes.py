"""Processes: what runs on the node."""

from collections.abc import Mapping

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Handler
from talos.machined.api.monitoring import make_handler
from talos.machined.api.paths import make_text
from talos.machined.node.ports.node import Node
from talos.system.files import Files
from talos.system.proc.processes import Process, read_processes


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""
    return {"Processes": make_handler(node.ports.files, list_processes)}


def list_processes(files: Files) -> pb.ProcessesResponse:
    """Every process and kernel thread; processor time in seconds, memory in bytes."""
    found = [_make_info(process) for process in read_processes(files)]
    return pb.ProcessesResponse(messages=[pb.Process(processes=found)])


def _make_info(process: Process) -> pb.ProcessInfo:
    found = process.stat
    return pb.ProcessInfo(
        pid=found.pid,
        ppid=found.ppid,
        state=found.state,
        threads=found.threads,
        cpu_time=found.cpu_time,
        virtual_memory=found.virtual_memory,
        resident_memory=found.resident_memory,
        command=make_text(found.command),
        executable=make_text(process.executable),
        args=make_text(" ".join(process.args)),
        label=process.label,
    )
