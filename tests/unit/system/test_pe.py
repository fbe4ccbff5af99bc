"""EFI programs: their sections."""

import hashlib
import io

import pytest
from tests.unit.pki.programs import make_program

from talos.system.pe import Program, Section

DATA = make_program({".osrel": b"ID=talos\n", ".initrd": b"0707" * 400, ".cmdline": b"a", ".cmdlin2": b""})


def make(data: bytes) -> Program:
    return Program(io.BytesIO(data), len(data))


def test_sections_without_their_padding() -> None:
    program = make(DATA)
    assert program.list_sections()[:2] == [
        Section(name=".osrel", offset=512, size=9),
        Section(name=".initrd", offset=1024, size=1600),
    ]
    assert program.read_section(".osrel", 9) == b"ID=talos\n"
    assert program.hash_section(".initrd") == hashlib.sha256(b"0707" * 400).hexdigest()


@pytest.mark.parametrize(
    ("name", "reason"),
    [(".linux", "it has no section .linux"), (".initrd", ".initrd has 1600 bytes, at most 100 are read")],
)
def test_a_section_that_is_not_read(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make(DATA).read_section(name, 100)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "less than its header names"),
        (b"hsqs" * 99, "it is no EFI program"),
        (DATA.replace(b"PE\0\0", b"NE\0\0"), "it is no EFI program"),
        (DATA.replace(b"\x0b\x02", b"\x0b\x01"), "it is no EFI program for 64 bits"),
        (DATA[:1000], "less than its header names"),
    ],
)
def test_what_is_no_program(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make(data).read_section(".initrd", 1 << 20)
