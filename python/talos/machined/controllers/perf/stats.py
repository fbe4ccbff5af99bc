"""CPUStat and MemoryStat: the latest counters of processors and memory."""

from dataclasses import asdict

import trio

from talos.api.definitions import perf_pb2
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.system.files import Files
from talos.system.proc.meminfo import make_plain_name, parse_meminfo
from talos.system.proc.stat import parse_stat

INTERVAL = 30.0
"""Seconds between two samples."""
_FIELDS = {name.replace("_", ""): name for name in perf_pb2.MemorySpec.DESCRIPTOR.fields_by_name}


class StatsController(Controller):
    """Samples the kernel's counters periodically."""

    name = "perf.StatsController"
    outputs = (Output(kinds.CPU_STAT), Output(kinds.MEMORY_STAT))

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, runtime: ControllerRuntime) -> None:
        """Sample until cancelled."""
        while True:
            await runtime.put(*ids.CPU_STAT, read_cpu(self._files))
            await runtime.put(*ids.MEMORY_STAT, read_memory(self._files))
            runtime.reset_backoff()
            await trio.sleep(INTERVAL)


def read_cpu(files: Files) -> perf_pb2.CPUSpec:
    """Times in seconds, the rest are counts."""
    found = parse_stat(files.read("/proc/stat"))
    return perf_pb2.CPUSpec(
        cpu=[perf_pb2.CPUStat(**asdict(times)) for times in found.cpu],
        cpu_total=perf_pb2.CPUStat(**asdict(found.cpu_total)),
        irq_total=found.irq_total,
        context_switches=found.context_switches,
        process_created=found.process_created,
        process_running=found.process_running,
        process_blocked=found.process_blocked,
        soft_irq_total=found.soft_irq_total,
    )


def read_memory(files: Files) -> perf_pb2.MemorySpec:
    """In kB; what the kernel doesn't count is 0."""
    found = parse_meminfo(files.read("/proc/meminfo"))
    values = {
        field: value
        for key, value in found.items()
        if (field := _FIELDS.get(make_plain_name(key))) is not None
    }
    values["mem_used"] = found["MemTotal"] - found["MemFree"]
    return perf_pb2.MemorySpec(**values)
