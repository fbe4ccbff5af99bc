"""An installation, step by step: whatever the power does, the disk is installed or installable."""

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from talos.disks.install.install import LAST_STEPS, STEPS, run_install
from talos.disks.install.plan import make_plan
from talos.disks.install.source import load_source
from talos.system.block.layout import GIB, MIB, SYSTEM, Placed, place_areas
from talos.system.block.meta import parse_meta
from talos.system.block.verity import make_tree
from talos.system.errors import UserError
from talos.system.files import hash_file
from talos.upgrade.release.initramfs import read_initramfs
from talos.upgrade.release.unpack import read_members

from .world import FolderTarget, make_disk, make_job, make_request, make_source, write_image

PLACES = {placed.area.label: placed for placed in place_areas(SYSTEM)}


class PowerCutError(Exception):
    """The end, between two steps."""


async def install(
    target: FolderTarget, source_folder: Path, *, cut_after: int = -1, kernel: bool = True
) -> list[str]:
    """Install as far as the power lasts, to whatever a boot finds on the disk; the progress."""
    disk = target.discover()
    plan = make_plan([disk], make_request(path=disk.path), is_busy=lambda _: False)
    lines: list[str] = []

    def log(line: str) -> None:
        if line.endswith(")") and sum("/7)" in other for other in lines) == cut_after:
            raise PowerCutError
        lines.append(line)

    job = make_job(target, make_source(source_folder, kernel=kernel), plan.disk, plan.request, log)
    if cut_after < 0:
        await run_install(job)
        return lines
    with pytest.raises(PowerCutError):
        await run_install(job)
    return lines


def is_marked(target: FolderTarget) -> bool:
    try:
        parse_meta(target.read(PLACES["META"].start, MIB))
    except ValueError:
        return False
    return True


async def test_what_is_on_the_disk_afterwards(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path / "disk", 10 * GIB)
    lines = await install(target, tmp_path)
    boot = target.root("BOOT")
    source = tmp_path / "install"
    assert hash_file(boot / "A/vmlinuz") == hash_file(source / "vmlinuz")
    assert (boot / "A/initramfs").read_bytes().startswith(b"070701")
    assert (boot / "grub/grub.cfg").stat().st_mode & 0o777 == 0o600
    assert (target.root("EFI") / "EFI/BOOT/BOOTX64.EFI").read_bytes() == b"MZ"
    assert target.read(0, 2) == b"\xeb\x63"
    assert target.read(PLACES["BIOS"].start, 4) == b"CCCC"
    assert parse_meta(target.read(PLACES["META"].start, MIB)) == {10: b"network"}
    assert [line for line in lines if "/7)" in line] == [
        f"{step.text} ({n}/7)" for n, step in enumerate(STEPS, 1)
    ]
    assert lines[-1] == "/dev/vda is installed"
    assert not list(boot.rglob("*.new"))


async def test_the_installed_initramfs_is_the_one_the_machine_came_from(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path / "disk", 10 * GIB)
    await install(target, tmp_path)
    expected = hashlib.sha256()
    image = tmp_path / "install/rootfs.sqsh"
    for piece in read_initramfs(tmp_path / "install/init", image, make_tree(image)):
        expected.update(piece)
    assert hash_file(target.root("BOOT") / "A/initramfs") == expected.hexdigest()


@pytest.mark.parametrize("steps", range(len(STEPS)))
async def test_a_power_cut_leaves_a_disk_that_can_be_installed_to(tmp_path: Path, steps: int) -> None:
    target = FolderTarget(tmp_path / "disk", 10 * GIB)
    await install(target, tmp_path / "first", cut_after=steps)
    assert not is_marked(target)
    # Without wipe: what is on the disk is recognised as ours.
    await install(target, tmp_path / "second")
    assert is_marked(target)


async def test_the_mark_of_an_older_installation_goes_first(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path / "disk", 10 * GIB)
    await install(target, tmp_path / "first")
    disk = target.discover()
    request = make_request(wipe=True)
    job = make_job(target, make_source(tmp_path / "second"), disk, request)
    await run_install(job, STEPS[:1])
    assert not is_marked(target)
    assert target.read(0, MIB) == bytes(MIB)


async def test_only_the_mark_is_missing(tmp_path: Path) -> None:
    """It may have booted from there, where the kernel isn't handed over: all that is left is done."""
    target = FolderTarget(tmp_path / "disk", 10 * GIB)
    await install(target, tmp_path / "first", cut_after=len(STEPS) - 1)
    lines = await install(target, tmp_path / "second", kernel=False)
    assert lines[0] == "everything but the mark of an installation is on the disk already"
    assert len(lines) == 2 + len(LAST_STEPS)
    assert is_marked(target)


async def test_without_a_kernel_nothing_is_touched(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path / "disk", 10 * GIB)
    with pytest.raises(UserError, match="the kernel image was not handed over"):
        await install(target, tmp_path, kernel=False)
    assert not target.table


def flip_bit(path: Path) -> None:
    """The last one that counts."""
    data = bytearray(path.read_bytes())
    data[len(data.rstrip(b"\0\n")) - 1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["rootfs.sqsh", "rootfs.verity", "rootfs.roothash"])
async def test_a_damaged_system_image_is_not_installed(tmp_path: Path, name: str) -> None:
    target = FolderTarget(tmp_path / "disk", 10 * GIB)
    source = make_source(tmp_path)
    flip_bit(tmp_path / "install" / name)
    job = make_job(target, source, make_disk(size=10 * GIB), make_request())
    with pytest.raises(UserError, match=r"rootfs\.sqsh: does not match its root hash and hash tree"):
        await run_install(job)
    assert not target.table


async def test_a_disk_that_reads_differently_gets_no_mark(tmp_path: Path) -> None:
    class LyingTarget(FolderTarget):
        @contextmanager
        def mount(self, placed: Placed, *, read_only: bool = False) -> Generator[Path]:
            if read_only:
                (self.root("BOOT") / "A/vmlinuz").write_bytes(b"something else")
            with super().mount(placed, read_only=read_only) as root:
                yield root

    target = LyingTarget(tmp_path / "disk", 10 * GIB)
    with pytest.raises(UserError, match="what was written reads differently"):
        await install(target, tmp_path)
    assert not is_marked(target)


async def test_old_firmware_gets_nothing_on_large_sectors(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path / "disk", 10 * GIB, sector_size=4096)
    lines = await install(target, tmp_path)
    assert target.read(0, 512) == bytes(512)
    assert any("only UEFI boots it" in line for line in lines)
    assert f"start={PLACES['EFI'].start // 4096}, size={100 * MIB // 4096}" in target.table


async def test_a_system_that_was_not_booted_from_an_initramfs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"init is missing \(boot from an ISO or by PXE\)"):
        load_source("v1", tmp_path)


async def test_the_slot_has_the_extensions_and_the_identity_too(tmp_path: Path) -> None:
    source = make_source(tmp_path / "source")
    before = source.hash_initramfs()
    extensions, release = source.directory / "extensions", source.directory / "release"
    for folder in (extensions, release):
        folder.mkdir()
    (release / "os-release").write_text("ID=talos")
    root = write_image(extensions / "000.agent.sqsh", b"hsqs" * 1024)
    (extensions / "roothashes").write_text(f"{root}  000.agent.sqsh\n")
    data = b"".join(source.read_initramfs())
    names = [
        b"rootfs.sqsh\0",
        b"extensions\0",
        b"extensions/000.agent.sqsh\0",
        b"extensions/000.agent.verity\0",
        b"extensions/roothashes\0",
        b"release\0",
    ]
    places = [data.index(name) for name in names]
    assert places == sorted(places)
    assert source.hash_initramfs() != before
    source.check()
    flip_bit(extensions / "000.agent.verity")
    with pytest.raises(UserError, match=r"extensions/000\.agent\.sqsh: does not match"):
        source.check()


async def test_the_slot_begins_with_the_microcode(tmp_path: Path) -> None:
    source = make_source(tmp_path / "source")
    before = b"".join(source.read_initramfs())
    firmware = tmp_path / "firmware"
    for name, size in (("amd-ucode/b.bin", 30), ("intel-ucode/06-01", 1024), ("intel-ucode/06-00", 2048)):
        (firmware / name).parent.mkdir(parents=True, exist_ok=True)
        (firmware / name).write_bytes(name.encode().ljust(size, b"."))
    data = b"".join(replace(source, firmware=firmware).read_initramfs())
    assert data.endswith(before)
    found = {member.name: b"".join(member.content) for member in read_members([data])}
    folder = "kernel/x86/microcode"
    amd, intel = found[f"{folder}/AuthenticAMD.bin"], found[f"{folder}/GenuineIntel.bin"]
    assert (amd[:15], intel[:17], intel[2048:2065]) == (
        b"amd-ucode/b.bin",
        b"intel-ucode/06-00",
        b"intel-ucode/06-01",
    )
    assert (data.index(amd) % 16, data.index(intel) % 16) == (0, 0), "the processor reads it in place"
