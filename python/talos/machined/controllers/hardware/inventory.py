"""Processor, MemoryModule, CPUCore: what is built into the machine, read once per boot."""

from collections.abc import Iterator, Mapping

import trio
from google.protobuf.message import Message

from talos.api.definitions.hardware_pb2 import CPUCoreSpec, MemoryModuleSpec, ProcessorSpec
from talos.machined.controllers.runtime.api_up import API_UP, wait_for_api
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output
from talos.resource.kind import Kind
from talos.system.files import Files
from talos.system.proc.cpuinfo import CpuInfo, parse_cpuinfo
from talos.system.proc.meminfo import parse_meminfo
from talos.system.smbios import MEMORY_DEVICE, PROCESSOR, TABLE, Structure, parse_structures

POPULATED = 1 << 6
"""The bit of a processor's status that there is one in the socket."""
NO_SIZE, UNKNOWN_SIZE, EXTENDED_SIZE = 0, 0xFFFF, 0x7FFF
KILOBYTES = 1 << 15
"""The bit of a memory module's size that it is in KiB."""
KIB_PER_MIB = 1024
UNKNOWN = "UNKNOWN"

type Found = tuple[Kind[Message], str, Message]


class HardwareInventoryController(Controller):
    """SMBIOS and ``/proc`` → Processor, MemoryModule, CPUCore."""

    name = "hardware.InventoryController"
    inputs = (API_UP,)
    outputs = (Output(kinds.PROCESSOR), Output(kinds.MEMORY_MODULE), Output(kinds.CPU_CORE))

    def __init__(self, files: Files) -> None:
        self._files = files

    async def run(self, runtime: ControllerRuntime) -> None:
        """Write all of them once, when the start does not need the processor any more."""
        await wait_for_api(runtime)
        for kind, name, spec in await trio.to_thread.run_sync(list_parts, self._files):
            await runtime.put(kind, name, spec)


def list_parts(files: Files) -> list[Found]:
    """All of :func:`find_parts`."""
    return list(find_parts(files))


def find_parts(files: Files) -> Iterator[Found]:
    """What the firmware and the kernel report; nothing else."""
    try:
        structures = list(parse_structures(files.read_bytes(TABLE)))
    except OSError:
        structures = []
    for found in structures:
        if found.type == PROCESSOR:
            yield kinds.PROCESSOR, make_id(found.text(0x04)), make_processor(found)
    modules = [found for found in structures if found.type == MEMORY_DEVICE]
    for found in modules:
        yield kinds.MEMORY_MODULE, make_id(found.text(0x10), found.text(0x11)), make_module(found)
    if not modules:
        total = parse_meminfo(files.read("/proc/meminfo")).get("MemTotal", 0) // KIB_PER_MIB
        yield kinds.MEMORY_MODULE, UNKNOWN, MemoryModuleSpec(manufacturer=UNKNOWN, size=total)
    for name, core in find_cores(parse_cpuinfo(files.read("/proc/cpuinfo"))).items():
        yield kinds.CPU_CORE, name, core


def make_id(*names: str) -> str:
    """Names joined, without blanks."""
    return " ".join(filter(None, names)).replace(" ", "-") or UNKNOWN


def make_processor(found: Structure) -> ProcessorSpec:
    """What is in a socket; an empty spec for an empty one."""
    if not found.number(0x18, 1) & POPULATED:
        return ProcessorSpec()
    return ProcessorSpec(
        socket=found.text(0x04),
        manufacturer=found.text(0x07),
        product_name=found.text(0x10),
        max_speed=found.number(0x14, 2),
        boot_speed=found.number(0x16, 2),
        status=found.number(0x18, 1),
        serial_number=found.text(0x20),
        asset_tag=found.text(0x21),
        part_number=found.text(0x22),
        core_count=found.number(0x23, 1),
        core_enabled=found.number(0x24, 1),
        thread_count=found.number(0x25, 1),
    )


def make_module(found: Structure) -> MemoryModuleSpec:
    """What is in a slot, its size in MiB; an empty spec for an empty one."""
    size = found.number(0x0C, 2)
    if size in {NO_SIZE, UNKNOWN_SIZE}:
        return MemoryModuleSpec()
    if size == EXTENDED_SIZE:
        mib = found.number(0x1C, 4) & 0x7FFF_FFFF
    else:
        mib = (size & ~KILOBYTES) // KIB_PER_MIB if size & KILOBYTES else size
    return MemoryModuleSpec(
        size=mib,
        device_locator=found.text(0x10),
        bank_locator=found.text(0x11),
        speed=found.number(0x15, 2),
        manufacturer=found.text(0x17),
        serial_number=found.text(0x18),
        asset_tag=found.text(0x19),
        product_name=found.text(0x1A),
    )


def find_cores(processors: list[CpuInfo]) -> Mapping[str, CPUCoreSpec]:
    """The cores, each with the logical processors that run on it."""
    cores: dict[str, CPUCoreSpec] = {}
    for one in processors:
        name = f"{one.physical_id}-{one.core_id}" if one.core_id else str(one.processor)
        if name not in cores:
            cores[name] = CPUCoreSpec(
                socket=one.physical_id,
                core_id=one.core_id,
                vendor_id=one.vendor_id,
                cpu_family=one.cpu_family,
                model=one.model,
                model_name=one.model_name,
                stepping=one.stepping,
                microcode=one.microcode,
                cache_size=one.cache_size,
                cores_per_socket=one.cpu_cores,
                threads_per_socket=one.siblings,
                flags=one.flags,
                bugs=one.bugs,
                bogo_mips=one.bogo_mips,
                address_sizes=one.address_sizes,
            )
        cores[name].logical_cp_us.append(one.processor)
    return cores
