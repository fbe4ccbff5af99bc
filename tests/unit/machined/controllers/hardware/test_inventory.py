"""The parts of a machine, from the firmware's table and the kernel's."""

import struct

from talos.api.definitions.hardware_pb2 import ProcessorSpec
from talos.machined.controllers.hardware.inventory import find_parts
from talos.resource import kinds
from talos.system.smbios import TABLE, parse_structures
from talos.testing.files import MemoryFiles

CPU = """processor	: 0
vendor_id	: GenuineIntel
model name	: A Processor
physical id	: 0
siblings	: 4
core id		: 0
cpu cores	: 2
flags		: fpu vme
bogomips	: 4000.00

processor	: 2
vendor_id	: GenuineIntel
physical id	: 0
core id		: 0

processor	: 1
physical id	: 0
core id		: 1
"""
MEMINFO = "MemTotal:  2097152 kB\n"


def make_structure(kind: int, fields: dict[int, bytes], length: int, *texts: str) -> bytes:
    data = bytearray(struct.pack("<BBH", kind, length, 0x400) + bytes(length - 4))
    for offset, value in fields.items():
        data[offset : offset + len(value)] = value
    return bytes(data) + (b"".join(text.encode() + b"\0" for text in texts) or b"\0") + b"\0"


SOCKET = make_structure(
    4,
    {0x04: b"\1", 0x07: b"\2", 0x10: b"\3", 0x14: b"\xa0\x0f", 0x18: b"\x41", 0x23: b"\2\2\4"},
    0x30,
    "CPU 0",
    " Intel ",
    "To Be Filled By O.E.M.",
)
EMPTY_SOCKET = make_structure(4, {0x04: b"\1"}, 0x1A, "CPU 1")
MODULE = make_structure(
    17,
    {0x0C: b"\xff\x7f", 0x10: b"\1", 0x11: b"\2", 0x1C: struct.pack("<I", 65536)},
    0x28,
    "DIMM A",
    "BANK 0",
)
SMALL = make_structure(17, {0x0C: struct.pack("<H", 0x8000 | 2048), 0x10: b"\1"}, 0x28, "DIMM B")
END = make_structure(127, {}, 4)


def find(table: bytes | None) -> dict[str, dict[str, object]]:
    contents: dict[str, str | bytes] = {"/proc/cpuinfo": CPU, "/proc/meminfo": MEMINFO}
    if table is not None:
        contents[TABLE] = table
    found: dict[str, dict[str, object]] = {}
    for kind, name, spec in find_parts(MemoryFiles(contents)):
        found.setdefault(kind.type, {})[name] = spec
    return found


def test_what_is_in_sockets_and_slots() -> None:
    found = find(SOCKET + EMPTY_SOCKET + MODULE + SMALL + END + SOCKET)
    processors = found[kinds.PROCESSOR.type]
    assert processors.keys() == {"CPU-0", "CPU-1"}
    assert processors["CPU-0"] == ProcessorSpec(
        socket="CPU 0",
        manufacturer="Intel",
        max_speed=4000,
        status=65,
        core_count=2,
        core_enabled=2,
        thread_count=4,
    )
    assert str(processors["CPU-1"]) == ""
    modules = found[kinds.MEMORY_MODULE.type]
    assert {name: getattr(spec, "size", 0) for name, spec in modules.items()} == {
        "DIMM-A-BANK-0": 65536,
        "DIMM-B": 2,
    }


def test_a_machine_without_a_table_has_its_memory_and_cores() -> None:
    found = find(None)
    assert kinds.PROCESSOR.type not in found
    (memory,) = found[kinds.MEMORY_MODULE.type].items()
    assert (memory[0], getattr(memory[1], "size", 0)) == ("UNKNOWN", 2048)
    cores = found[kinds.CPU_CORE.type]
    assert {name: list(getattr(core, "logical_cp_us", ())) for name, core in cores.items()} == {
        "0-0": [0, 2],
        "0-1": [1],
    }


def test_a_table_that_is_cut_off_is_read_up_to_there() -> None:
    table = SOCKET + MODULE
    for size in range(len(table)):
        assert len(list(parse_structures(table[:size]))) <= 2
    assert [one.type for one in parse_structures(table)] == [4, 17]
    assert list(parse_structures(b"\x04\x00\x00\x00\x00\x00")) == []
