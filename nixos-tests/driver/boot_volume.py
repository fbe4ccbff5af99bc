"""BOOT of a disk that is switched off: made anew with another size, or with files that read differently."""

from pathlib import Path

from driver.grub import CONFIG, ENVIRONMENT, SIZE, START, BootDisk
from driver.process import run
from driver.programs import Programs

LOG = 64 << 20
"""Bytes of a small filesystem's log."""
SPARE = 16 << 20
"""Bytes that the filesystem takes for itself, generously."""


def make_boot(
    programs: Programs, disk: Path, folder: Path, *, size: int, room: int, kernel: bytes = b""
) -> None:
    """Make BOOT's filesystem anew, so that ``room`` bytes of its ``size`` are free.

    ``kernel`` is both slots' instead of their own; it needs no initramfs.
    """
    old = BootDisk(programs, disk)
    folder.mkdir(exist_ok=True)
    lines, used = ["/", "0 0", "d--755 0 0"], LOG + SPARE
    for slot in "AB":
        files = {name: old.read(f"{slot}/{name}") for name in ("vmlinuz", "initramfs")}
        if kernel:
            files = {"vmlinuz": kernel, "initramfs": bytes(512)}
        if None in files.values():
            continue
        lines.append(f"{slot} d--755 0 0")
        for name, data in files.items():
            assert data is not None
            (folder / f"{slot}-{name}").write_bytes(data)
            lines.append(f"{name} ---644 0 0 {slot}-{name}")
            used += len(data)
        lines.append("$")
    (folder / "config").write_bytes(old.read(CONFIG) or b"")
    (folder / "environment").write_bytes(old.read(ENVIRONMENT) or b"")
    (folder / "filler").write_bytes(b"\xa5" * max(0, size - used - room))
    lines += ["filler ---600 0 0 filler", "grub d--755 0 0", "grub.cfg ---600 0 0 config"]
    lines += ["grubenv ---600 0 0 environment", "$", "$"]
    (folder / "prototype").write_text("\n".join(lines) + "\n")
    volume = folder / "boot.img"
    volume.unlink(missing_ok=True)
    with volume.open("wb") as file:
        file.truncate(size)
    argv = [*programs.argv("mkfs.xfs"), "-q", "-L", "BOOT", "-p", str(folder / "prototype"), str(volume)]
    run(argv, cwd=folder, seconds=120)
    with volume.open("rb") as source, disk.open("r+b") as target:
        target.seek(START)
        while piece := source.read(1 << 20):
            target.write(piece)


def damage(disk: Path, data: bytes, *, start: int = START, size: int = SIZE) -> int:
    """Overwrite what begins with these bytes, wherever a part of the disk has it; how often that was."""
    count, step = 0, 4096
    with disk.open("r+b") as file:
        for place in range(start, start + size, 1 << 20):
            file.seek(place)
            piece = file.read(1 << 20)
            for offset in range(0, len(piece), step):
                if piece.startswith(data, offset):
                    file.seek(place + offset)
                    file.write(b"\xff" * len(data))
                    count += 1
    return count
