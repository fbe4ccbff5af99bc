"""Which disk is chosen, and what keeps the installer from one."""

import os
from pathlib import Path

import pytest

from talos.api.definitions import block_pb2
from talos.config.read.loader import load
from talos.disks.disk import Content, Disk
from talos.disks.install.plan import InstallPlan, choose_disk, is_device_busy, make_plan, plan_install
from talos.disks.install.request import InstallRequest, read_request
from talos.resource.kinds import DISCOVERED_VOLUME, DISK
from talos.resource.memory.state import MemoryState
from talos.resource.resource import make_resource
from talos.system.block.layout import GIB, MIB, MINIMUM_SIZE
from talos.system.errors import UserError
from talos.system.process import run_command

from .world import make_contents, make_disk, make_request

XFS = Content(name="vda1", label="data", filesystem="xfs", offset=MIB, size=GIB)
DISKS = (
    make_disk("sda", size=500 * 10**9, transport="sata", model="WD Red", serial="WD1", rotational=True),
    make_disk(
        "sdb",
        size=250 * 10**9,
        transport="sata",
        model="Samsung 870",
        serial="S8",
        bus_path="/pci0000:00/ata2",
    ),
    make_disk(
        "nvme0n1",
        size=10**12,
        transport="nvme",
        model="Samsung 990",
        serial="S9",
        symlinks=["/dev/disk/by-id/n"],
    ),
    make_disk("sr0", size=GIB, cdrom=True, readonly=True, model="DVD"),
)


def read(text: str) -> InstallRequest:
    request = read_request(load(text.encode()))
    assert request is not None
    return request


def read_install(text: str) -> InstallRequest:
    return read(f"version: v1alpha1\nmachine:\n  type: worker\n  install:\n    wipe: false\n    {text}\n")


def read_match(match: str, more: str = "") -> InstallRequest:
    return read(
        "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\nprovisioning:\n"
        f"  diskSelector:\n    match: '{match}'\n{more}"
    )


def is_free(_: str) -> bool:
    return False


def plan(disk: Disk, *, wipe: bool = False) -> InstallPlan:
    return make_plan([disk], make_request(wipe=wipe, path=disk.path), is_busy=is_free)


@pytest.mark.parametrize(
    ("setting", "chosen"),
    [
        ("disk: /dev/sda", "sda"),
        ("disk: /dev/disk/by-id/n", "nvme0n1"),
        ("diskSelector: {size: '>= 1TB'}", "nvme0n1"),
        ("diskSelector: {size: '< 250.1GB'}", "sdb"),
        ("diskSelector: {size: '== 500GB'}", "sda"),
        ("diskSelector: {size: 500GB}", "sda"),
        ("diskSelector: {model: 'Samsung*', size: '< 1TB'}", "sdb"),
        ("diskSelector: {serial: S9}", "nvme0n1"),
        ("diskSelector: {type: hdd}", "sda"),
        ("diskSelector: {type: nvme}", "nvme0n1"),
        ("diskSelector: {type: ssd, busPath: '/pci*/ata2'}", "sdb"),
        ("diskSelector: {name: sdb}", "sdb"),
    ],
)
def test_machine_install_chooses(setting: str, chosen: str) -> None:
    assert choose_disk(DISKS, read_install(setting)).id == chosen


@pytest.mark.parametrize(
    ("match", "chosen"),
    [
        ('disk.dev_path == "/dev/sdb"', "sdb"),
        ('disk.transport == "nvme"', "nvme0n1"),
        ("disk.size > 400u * GB && disk.rotational", "sda"),
        ('disk.serial == "S8"', "sdb"),
    ],
)
def test_an_expression_chooses(match: str, chosen: str) -> None:
    assert choose_disk(DISKS, read_match(match)).id == chosen


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "disk: /dev/sdz",
            r"machine\.install\.disk: there is no disk /dev/sdz \(disks: /dev/sda: model WD Red",
        ),
        ("diskSelector: {size: '> 2TB'}", r"machine\.install\.diskSelector: no disk matches size > 2TB"),
        (
            "diskSelector: {model: 'Samsung*'}",
            r"several disks match model Samsung\* \(disks: /dev/sdb: .*; /dev/nvme0n1",
        ),
        ("diskSelector: {name: sr0}", r"no disk matches name sr0 .*\(is an optical drive\)"),
    ],
)
def test_no_choice_lists_the_disks(setting: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        choose_disk(DISKS, read_install(setting))


def test_a_size_that_is_none() -> None:
    with pytest.raises(UserError, match=r"machine\.install\.diskSelector\.size: '>= big' is no size"):
        read_install("diskSelector: {size: '>= big'}")


def test_a_selector_without_a_setting() -> None:
    with pytest.raises(UserError, match=r"machine\.install\.diskSelector: no disk is selected"):
        read_install("diskSelector: {}")


def test_no_disks_at_all() -> None:
    with pytest.raises(UserError, match="the machine has no disks"):
        choose_disk((), make_request())


def test_a_partition_is_not_a_disk() -> None:
    with pytest.raises(UserError, match="/dev/vda1 is a partition"):
        choose_disk([make_disk("vda", XFS)], make_request(path="/dev/vda1"))


def test_no_installation_is_requested() -> None:
    assert read_request(load(b"version: v1alpha1\nmachine: {type: worker}\n")) is None
    assert read_request(load(b"version: v1alpha1\nmachine: {type: worker, install: {wipe: true}}\n")) is None


def test_wipe_is_requested_once_and_a_document_has_it_by_default() -> None:
    assert not read_install("disk: /dev/sda").wipe
    assert read_match("true").wipe
    assert not read_match("true", "  wipe: false\n").wipe


def test_a_document_without_a_selector() -> None:
    with pytest.raises(UserError, match=r"provisioning\.diskSelector\.match: no disk is selected"):
        read("apiVersion: v1alpha1\nkind: UnattendedInstallConfig\n")


def test_an_image_is_not_pulled() -> None:
    request = read_install("disk: /dev/sda\n    image: registry.example/installer:v1")
    assert request.warnings == ("machine.install.image: not used, the running system is installed",)


@pytest.mark.parametrize(
    ("disk", "message"),
    [
        (make_disk("vda", size=MINIMUM_SIZE - 1), r"is too small, the partitions need 4\.2 GiB"),
        (make_disk("vda", readonly=True), "is read-only"),
        (make_disk("sr0", cdrom=True), "is an optical drive"),
        *(
            (
                make_disk("sdb", Content(name="sdb1", label=label, filesystem="iso9660", offset=0, size=1)),
                "is the medium",
            )
            for label in ("TALOS", "TALOS_V1_15_0")
        ),
        (
            make_disk("vda", XFS),
            r"is not empty: gpt \(vda1: data, xfs, 1 GiB\) \(machine\.install\.wipe: true erases",
        ),
        (make_disk("vda", kind="xfs"), "is not empty: xfs"),
    ],
)
def test_a_disk_that_is_refused(disk: Disk, message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(disk)


@pytest.mark.parametrize("wipe", [False, True])
def test_a_system_is_not_written_over(wipe: bool) -> None:
    """It may be on a disk that was connected when the boot had found no system."""
    with pytest.raises(UserError, match=r"has an installed system \(the kernel argument talos\.exp.*=system"):
        plan(make_disk("vda", *make_contents(meta="talosmeta")), wipe=wipe)


def test_a_disk_in_use_is_refused_even_with_wipe() -> None:
    with pytest.raises(UserError, match="is in use"):
        make_plan([make_disk()], make_request(wipe=True), is_busy=lambda path: path == "/dev/vda")


@pytest.mark.root
def test_a_device_that_something_holds_is_in_use(tmp_path: Path) -> None:
    """As a mount of it holds it, or of a partition."""
    image = tmp_path / "disk"
    image.touch()
    os.truncate(image, MIB)
    device = run_command(["losetup", "--find", "--show", str(image)]).stdout.strip()
    try:
        assert not is_device_busy(device)
        holder = os.open(device, os.O_RDONLY | os.O_EXCL)
        try:
            assert is_device_busy(device)
        finally:
            os.close(holder)
        assert not is_device_busy(device)
    finally:
        run_command(["losetup", "--detach", device])
    assert not is_device_busy("/dev/none-a"), "that there is none is for others to say"


def test_wipe_allows_to_erase() -> None:
    made = plan(make_disk("vda", XFS, model="QEMU", serial="7"), wipe=True)
    assert made.erases
    assert made.text() == (
        "The system will be installed to /dev/vda: model QEMU, serial 7, 10 GiB\n"
        "  chosen by machine.install.disk: /dev/vda\n"
        "  on it now: gpt (vda1: data, xfs, 1 GiB)\n"
        "  ALL OF THIS WILL BE ERASED, machine.install.wipe allows it\n"
        "  written by the installer: EFI 100 MiB vfat, BIOS 1 MiB, BOOT 2000 MiB xfs, META 1 MiB\n"
        "  made at the first boot: STATE 100 MiB xfs, EPHEMERAL up to 7.8 GiB xfs"
    )


def test_an_installation_that_was_begun_is_no_reason_to_refuse() -> None:
    made = plan(make_disk("vda", *make_contents()))
    assert "an installation was begun on it" in made.text()


def test_a_small_disk_is_warned_of() -> None:
    assert plan(make_disk("vda", size=5 * GIB)).text().endswith("container images will soon fill it")


async def test_the_plan_from_the_state() -> None:
    state = MemoryState()
    await state.create(make_resource(DISK, "vda", block_pb2.DiskSpec(size=8 * GIB, dev_path="/dev/vda")))
    for volume_id, parent, name, label in (
        ("vda", "", "gpt", ""),
        ("vda1", "vda", "ext4", "old"),
        ("vdb1", "vdb", "xfs", "x"),
    ):
        volume = block_pb2.DiscoveredVolumeSpec(name=name, parent=parent, partition_label=label, size=GIB)
        await state.create(make_resource(DISCOVERED_VOLUME, volume_id, volume))
    config = load(
        b"version: v1alpha1\nmachine:\n  type: worker\n  install:\n    disk: /dev/vda\n    wipe: true\n"
    )
    made = await plan_install(state, config, is_busy=is_free)
    assert made is not None
    assert "on it now: gpt (vda1: old, ext4, 1 GiB)" in made.text()
    assert await plan_install(state, load(b"version: v1alpha1\nmachine: {type: worker}\n")) is None
