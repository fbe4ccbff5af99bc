"""What the kernel kept over a reset."""

import os
from pathlib import Path

from talos.system.pstore import CONSOLE, DUMP, MAX_RECORDS, erase_records, join_dump, read_records


def write(folder: Path, name: str, data: bytes, written: float = 0) -> None:
    (folder / name).write_bytes(data)
    os.utime(folder / name, (written, written))


def test_records_are_read_and_erased(tmp_path: Path) -> None:
    assert read_records(tmp_path / "none") == []
    write(tmp_path, "console-ramoops-0", b"[ 1.0] hello\n", 2)
    write(tmp_path, "dmesg-ramoops-0", b"Panic#1 Part1\nlast words\n", 1)
    write(tmp_path, "pmsg-ramoops-0", b"from user space")
    (tmp_path / "dmesg-efi_pstore-1").mkdir()
    assert [(record.kind, record.data) for record in read_records(tmp_path)] == [
        (DUMP, b"Panic#1 Part1\nlast words\n"),
        (CONSOLE, b"[ 1.0] hello\n"),
    ]
    (tmp_path / "dmesg-efi_pstore-1").rmdir()
    erase_records(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["console-ramoops-0", "pmsg-ramoops-0"]
    erase_records(tmp_path / "none")


def test_a_dump_in_parts_is_joined(tmp_path: Path) -> None:
    for number, data in enumerate(
        (b"Panic#2 Part1\nend\n", b"Panic#2 Part2\nmiddle\n", b"Oops#1 Part1\nbegin\n", b"garbage", b"")
    ):
        write(tmp_path, f"dmesg-efi_pstore-17{number}", data)
    assert join_dump(read_records(tmp_path)) == b"begin\nmiddle\nend\n"


def test_endless_records_are_not_all_read(tmp_path: Path) -> None:
    for number in range(MAX_RECORDS + 5):
        write(tmp_path, f"dmesg-efi_pstore-{number}", b"Panic#1 Part1\n")
    assert len(read_records(tmp_path)) == MAX_RECORDS
