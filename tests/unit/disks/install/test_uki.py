"""An installation of a UKI, step by step: whatever the power does, the disk is installed or installable."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from tests.unit.pki.programs import make_program, make_uki

from talos.disks.install.install import STEPS, run_install
from talos.disks.install.job import Job
from talos.disks.install.plan import InstallPlan
from talos.disks.install.running import NETWORK_HINT, find_programs, make_uki_system, open_network
from talos.disks.install.source import RunningSystem
from talos.disks.install.uki import EfiFile, UkiSystem
from talos.system.block.layout import GIB, MIB, STATE, UKI_EFI, UKI_INSTALLED, place_areas
from talos.system.block.meta import parse_meta
from talos.system.efi_variables import EfiVariables
from talos.system.errors import UserError
from talos.upgrade.slots.systemd_boot.firmware import Firmware

from .world import Content, FolderTarget, make_disk, make_request, make_source

LOADER = make_program({".sdmagic": b"#### LoaderInfo: systemd-boot ####"})
META = next(placed for placed in place_areas(UKI_INSTALLED) if placed.area.label == "META")


def make_file(path: Path, data: bytes) -> EfiFile:
    path.write_bytes(b"before" + data)
    return EfiFile(
        where=path.name, path=path, start=6, size=len(data), sha256=hashlib.sha256(data).hexdigest()
    )


@pytest.fixture
def system(tmp_path: Path) -> UkiSystem:
    image = make_file(tmp_path / "image", make_uki("v1.15.0"))
    return UkiSystem(
        image=image, loader=make_file(tmp_path / "loader", LOADER), firmware=make_firmware(tmp_path)
    )


def make_firmware(folder: Path, entry: str = "", *, secure_boot: bool = False) -> Firmware:
    variables = folder / "variables"
    variables.mkdir(exist_ok=True)
    firmware = Firmware(
        settings=EfiVariables(variables, "settings"),
        databases=EfiVariables(variables, "databases"),
        loader=EfiVariables(variables, "loader"),
    )
    firmware.settings.make("SecureBoot", bytes([secure_boot]))
    firmware.loader.make("LoaderEntrySelected", f"{entry}\0".encode("utf-16-le"))
    return firmware


def make_job(target: FolderTarget, system: UkiSystem, log: list[str]) -> Job:
    """An installation to whatever a boot finds on the disk."""
    contents = (
        tuple(
            Content(
                name=f"vda{placed.number}",
                label=placed.area.label,
                filesystem=placed.area.filesystem,
                offset=placed.start,
                size=placed.area.size,
            )
            for placed in place_areas(UKI_INSTALLED)
        )
        if target.table
        else ()
    )
    disk = make_disk("vda", *contents, size=10 * GIB)
    plan = InstallPlan(disk=disk, request=make_request(arguments=("debug",)), areas=UKI_INSTALLED)
    return Job(plan=plan, system=system, target=target, log=log.append, meta={10: b"network"})


async def test_what_is_on_the_disk_afterwards(tmp_path: Path, system: UkiSystem) -> None:
    target, lines = FolderTarget(tmp_path / "disk", 10 * GIB), list[str]()
    job = make_job(target, system, lines)
    assert "EFI 2101 MiB vfat, META 1 MiB" in job.plan.text()
    await run_install(job)
    root = target.root("EFI")
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert files == {
        "EFI/BOOT/BOOTX64.EFI": LOADER,
        "EFI/Linux/talos-a.efi": make_uki("v1.15.0"),
        "loader/loader.conf": b"timeout 3\ndefault talos-a.efi\n",
    }
    assert parse_meta(target.read(META.start, MIB)) == {10: b"network"}
    assert target.read(0, 512) == bytes(512), "old firmware finds nothing"
    assert target.table.count("type=") == 2
    assert "machine.install.extraKernelArgs: not used, a UKI has its own, which are signed" in lines
    assert job.places[STATE.label].start == META.start + META.area.size


def test_meta_is_where_it_is_with_grub() -> None:
    assert META.start == next(placed for placed in place_areas() if placed.area.label == "META").start
    assert UKI_EFI.size == 2101 * MIB


@pytest.mark.parametrize("steps", range(1, len(STEPS)))
async def test_a_power_cut_leaves_a_disk_that_can_be_installed_to(
    tmp_path: Path, system: UkiSystem, steps: int
) -> None:
    target, lines = FolderTarget(tmp_path / "disk", 10 * GIB), list[str]()
    await run_install(make_job(target, system, []), STEPS[:steps])
    job = make_job(target, system, lines)
    assert job.plan.disk.is_unfinished == bool(target.table)
    await run_install(job)
    assert parse_meta(target.read(META.start, MIB)) == {10: b"network"}
    is_kept = "everything but the mark of an installation is on the disk already" in lines
    assert is_kept == (steps >= 4), "what is whole is not written again"


async def test_what_firmware_would_not_start_is_not_written(tmp_path: Path, system: UkiSystem) -> None:
    target = FolderTarget(tmp_path / "disk", 10 * GIB)
    (tmp_path / "on").mkdir()
    system = replace(system, firmware=make_firmware(tmp_path / "on", secure_boot=True))
    with pytest.raises(UserError, match="image: Secure Boot is on: it is not signed"):
        await run_install(make_job(target, system, []))
    assert not target.table


def make_medium(folder: Path, running: RunningSystem, initramfs: bytes) -> Path:
    root = folder / "medium"
    for name, data in (
        ("EFI/Linux/talos-v1.efi", make_uki("v1.15.0", initramfs)),
        ("EFI/BOOT/BOOTX64.EFI", LOADER),
    ):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(data)
    return root


def test_the_medium_that_this_system_was_started_from(tmp_path: Path) -> None:
    running = make_source(tmp_path, kernel=False)
    root = make_medium(tmp_path, running, b"".join(running.read_initramfs()))
    programs = find_programs(root, "/dev/sdb1", "talos-v1.efi")
    system = make_uki_system(programs, running, make_firmware(tmp_path))
    system.check()
    assert b"".join(system.loader.read()) == LOADER


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("talos-v1.efi@trial", r"/dev/sdb1: EFI/Linux/talos-v1\.efi: is not the system that runs"),
        ("talos-v2.efi", r"/dev/sdb1: EFI/Linux/talos-v2\.efi: there is no such file to install from"),
        ("", r"/dev/sdb1: EFI/Linux: there is no such file to install from"),
    ],
)
def test_a_medium_with_something_else(tmp_path: Path, entry: str, reason: str) -> None:
    running = make_source(tmp_path, kernel=False)
    root = make_medium(tmp_path, running, b"another")
    with pytest.raises(UserError, match=reason):
        make_uki_system(find_programs(root, "/dev/sdb1", entry), running, make_firmware(tmp_path)).check()


async def test_the_server_that_this_system_was_loaded_from(tmp_path: Path) -> None:
    running = make_source(tmp_path, kernel=False)
    files = {
        "http://boot/assets/talos.efi?token=***": make_uki("v1.15.0", b"".join(running.read_initramfs())),
        "http://boot/assets/systemd-boot.efi": LOADER,
    }

    async def load(url: str, path: Path) -> None:
        await trio.Path(path).write_bytes(files[url.replace("secret", "***")])

    folder = tmp_path / "installer"
    async with open_network("http://boot/assets/talos.efi?token=secret", load, folder) as programs:
        assert [programs.image.where, programs.loader.where] == [*files]
        system = make_uki_system(programs, running, make_firmware(tmp_path))
        system.check()
        assert b"".join(system.loader.read()) == LOADER
    assert not [*folder.iterdir()]


async def test_a_server_with_another_system(tmp_path: Path) -> None:
    running = make_source(tmp_path, kernel=False)

    async def load(_: str, path: Path) -> None:
        await trio.Path(path).write_bytes(make_uki("v1.15.0", b"another"))

    with pytest.raises(UserError, match=r"http://boot/talos\.efi: is not the system that runs") as caught:
        async with open_network("http://boot/talos.efi", load, tmp_path) as programs:
            make_uki_system(programs, running, make_firmware(tmp_path)).check()
    assert NETWORK_HINT in str(caught.value)
