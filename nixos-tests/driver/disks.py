"""Disks and volumes for machines: blank ones, layers over images, ISOs, an initramfs with one more file."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from driver.assets import Assets
from driver.node import Disk
from driver.process import run
from driver.programs import Programs

NEWC = "070701"
"""The cpio format that the kernel unpacks (Documentation/driver-api/early-userspace/buffer-format.rst).

Digits are capitals, as the installer writes them: it compares the archive of a UKI with its own."""
TRAILER = "TRAILER!!!"
FILE_MODE = 0o100444
FOLDER_MODE = 0o040755
META_START, META_COPY = 2102 << 20, 256 << 10
"""Where an installed disk has META, and bytes of each of its two copies."""
FIFO_MODE = 0o010644
ESP_SPARE = 4 << 20
"""Bytes of an EFI file system beside its files, generously."""
ESP_TYPE, TABLE = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", 1 << 20
"""The type of an EFI system partition, and bytes before and behind it for the table."""


def make_disk(programs: Programs, assets: Assets, disk: Disk, path: Path) -> None:
    """Make a disk that takes room only for what is written to it."""
    argv = [*programs.argv("qemu-img"), "create", "-q", "-f", "raw" if disk.raw else "qcow2"]
    if disk.asset:
        base = assets.path(disk.asset)
        base = base / disk.file if disk.file else base
        kind = "qcow2" if base.suffix == ".qcow2" else "raw"
        argv += ["-b", str(base), "-F", kind]
    run([*argv, str(path), *([disk.size] if disk.size else [])])


def parse_size(text: str) -> int:
    """Bytes of a size such as ``8G`` or ``300M``."""
    return int(text[:-1]) << {"M": 20, "G": 30}[text[-1]]


def copy_disk(programs: Programs, path: Path, copy: Path) -> None:
    """Make a layer over a disk as it is now; the disk must not be written to any more."""
    run(
        [
            *programs.argv("qemu-img"),
            "create",
            "-q",
            "-f",
            "qcow2",
            "-b",
            str(path),
            "-F",
            "qcow2",
            str(copy),
        ]
    )


def flatten_disk(programs: Programs, path: Path, copy: Path) -> Path:
    """Copy a disk with all layers below it, as far as there is something on it."""
    formats = ("-f", "qcow2", "-O", "qcow2")
    run([*programs.argv("qemu-img"), "convert", *formats, str(path), str(copy)], seconds=600)
    return copy


def read_disk(programs: Programs, path: Path, raw: Path) -> Path:
    """Write a disk's content to a plain file, holes left out."""
    run([*programs.argv("qemu-img"), "convert", "-f", "qcow2", "-O", "raw", str(path), str(raw)], seconds=600)
    return raw


def copy_sparse(path: Path, copy: Path) -> None:
    """Copy a plain disk; holes stay holes."""
    with path.open("rb") as source, copy.open("wb") as target:
        end = path.stat().st_size
        target.truncate(end)
        start = 0
        while start < end:
            try:
                start = os.lseek(source.fileno(), start, os.SEEK_DATA)
            except OSError:
                return  # there is only a hole left
            hole = os.lseek(source.fileno(), start, os.SEEK_HOLE)
            while start < hole:
                start += os.copy_file_range(source.fileno(), target.fileno(), hole - start, start, start)


def is_meta_whole(image: Path) -> bool:
    """Whether one of META's two copies is what was written: its digest is in the copy's end."""
    with image.open("rb") as file:
        file.seek(META_START)
        copies = [file.read(META_COPY), file.read(META_COPY)]
    for copy in copies:
        digest, tail = copy[-36:-4], copy[-4:]
        if hashlib.sha256(copy[:-36] + bytes(32) + tail).digest() == digest:
            return True
    return False


def make_iso(programs: Programs, folder: Path, label: str, files: dict[str, str]) -> Path:
    """An ISO 9660 volume with text files."""
    tree = folder / f"{label}.tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    for name, text in files.items():
        (tree / name).write_text(text)
    path = folder / f"{label}.iso"
    argv = ["-as", "mkisofs", "-quiet", "-o", str(path), "-V", label, "-r", str(tree)]
    run([*programs.argv("xorriso"), *argv])
    return path


def make_esp(
    programs: Programs, folder: Path, path: Path, files: Mapping[str, bytes], *, partitioned: bool = False
) -> None:
    """A disk with nothing but a file system that UEFI reads, of these files; ``folder`` is for its parts.

    ``partitioned``: in an EFI system partition, as on a stick that a person has made.
    """
    tree, volume = folder / f"{path.stem}.tree", folder / f"{path.stem}.img"
    for name, data in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(data)
    with volume.open("wb") as file:
        file.truncate(sum(map(len, files.values())) + ESP_SPARE)
    # Large clusters: an emulated firmware follows the chain of a file's clusters, one by one.
    run([*programs.argv("mkfs.vfat"), "-s", "16", str(volume)])
    run([*programs.argv("mcopy"), "-s", "-i", str(volume), *map(str, tree.iterdir()), "::"])
    if partitioned:
        _add_table(programs, volume)
    argv = [*programs.argv("qemu-img"), "convert", "-f", "raw", "-O", "qcow2", str(volume), str(path)]
    run(argv, seconds=120)
    shutil.rmtree(tree)
    volume.unlink()


def _add_table(programs: Programs, volume: Path) -> None:
    """Make a disk of a file system: with a partition table before it, and room for its copy behind it."""
    size, script = volume.stat().st_size, volume.with_suffix(".table")
    content = volume.rename(volume.with_suffix(".content"))
    with volume.open("wb") as file, content.open("rb") as source:
        file.seek(TABLE)
        shutil.copyfileobj(source, file)
        file.truncate(size + 2 * TABLE)
    script.write_text(f"label: gpt\nstart={TABLE // 512}, size={size // 512}, type={ESP_TYPE}\n")
    run([*programs.argv("sfdisk"), "--quiet", str(volume)], stdin=script)
    content.unlink()
    script.unlink()


def pack_file(name: str, data: bytes) -> bytes:
    """A cpio archive with one file, for the end of an initramfs."""
    return _entry(name, data, FILE_MODE, links=1) + _entry(TRAILER, b"", 0, links=1)


def pack_fifo(name: str) -> bytes:
    """The same with a pipe: a process that opens it to read waits for ever."""
    return _entry(name, b"", FIFO_MODE, links=1) + _entry(TRAILER, b"", 0, links=1)


def pack_folder(name: str, files: Mapping[str, bytes]) -> bytes:
    """The same with a folder of files; those in folders below it come after the names of these."""
    folders = sorted({str(parent) for file in files for parent in Path(name, file).parents} - {"."})
    data = b"".join(_entry(folder, b"", FOLDER_MODE, links=2) for folder in folders)
    data += b"".join(_entry(f"{name}/{file}", files[file], FILE_MODE, links=1) for file in sorted(files))
    return data + _entry(TRAILER, b"", 0, links=1)


def _entry(name: str, data: bytes, mode: int, *, links: int) -> bytes:
    numbers = (0, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = NEWC.encode() + b"".join(b"%08X" % number for number in numbers) + name.encode() + b"\0"
    return _pad(head) + _pad(data)


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def add_to_initramfs(initramfs: Path, out: Path, name: str, data: bytes) -> Path:
    """A copy of an initramfs with one more file, as boot loaders make it."""
    out.write_bytes(_pad(initramfs.read_bytes()) + pack_file(name, data))
    return out
