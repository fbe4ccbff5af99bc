"""A machine without a config is installed through the API by its manager, and boots from its disk by UEFI."""

import asyncio
import os
import shutil
import socket
import tarfile
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from driver.accelerator import Accelerator
from driver.client import at, parse_documents
from driver.configs import Cluster
from driver.lifecycle import run_installer
from driver.programs import Programs
from pyroute2 import IPRoute
from tests.harness.cluster import REPOSITORY, eventually
from tests.harness.releases import Releases
from tests.netboot.conftest import BUILD
from tests.netboot.machine import BOOT_TIMEOUT, MAINTENANCE, OURS, call_machine, dhcp, kernel, machine
from tests.netboot.segment import TAPS, Segment, make_segment
from tests.netboot.watched import watch
from tests.unit.upgrade.release.releases import make_release

from talos.api.common.common_pb2 import NS_SYSTEM, ContainerdInstance
from talos.api.machine.machine_pb2 import RebootRequest, RebootResponse
from talos.api.rpc import Code, RpcError
from talos.client.session import open_session
from talos.client.target import Target
from talos.provision.host.checks import tool_path
from talos.system.process import run_command
from talos.talosctl.client.images import send_archive
from talos.upgrade.release.archive import add_signature, read_annotations, read_archive
from talos.upgrade.release.signature import sign

# Two boots, one of them by firmware, and a system that is sent to the machine and written: a minute and
# a half on emulated processors with nothing else to do, and a release that has to be built.
pytestmark = [
    pytest.mark.root,
    pytest.mark.soak,
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

NETWORK = "fdae:41e4:649b:9303:"
"""SideroLink's, by the last byte of it."""
MANAGER, ADDRESS = f"{NETWORK}:1", IPv6Address(f"{NETWORK}:2")
IFA_F_NODAD = 0x02
"""linux/if_addr.h: the address is used at once."""
VERSION = "v1.15.1"
CALL_TIMEOUT, INSTALL_TIMEOUT, FIRMWARE_TIMEOUT = 60, 600, 300  # seconds
MEMORY = 2048
GIB = 1 << 30
LINK = """\
apiVersion: v1alpha1
kind: BridgeConfig
name: siderolink
links: [{name}]
addresses: [{{address: "{address}/64"}}]
---
apiVersion: v1alpha1
kind: LinkConfig
name: {name}
---
apiVersion: v1alpha1
kind: DHCPv4Config
name: siderolink
"""
CONTAINERD = ContainerdInstance(namespace=NS_SYSTEM)


@pytest.fixture
def releases(assets: Path, accelerator: Accelerator, tmp_path: Path) -> Releases:
    """Releases with GRUB, of a key of their own; in their kernel's arguments is the rate of its clock."""
    archive = BUILD / "release.unsigned.tar"
    if not archive.exists():
        pytest.skip(f"there is no {archive}: make soak-vm makes it")
    folder, others = tmp_path / "files", tmp_path / "others"
    others.mkdir()
    files = extract(archive.resolve(), folder)
    with files["cmdline"].open("a") as cmdline:
        cmdline.write(" ".join(["", *accelerator.arguments]))
    return Releases(tmp_path / "releases", others=others, machine=files)


def extract(archive: Path, folder: Path) -> dict[str, Path]:
    """The files of a release."""
    _, manifest = read_archive(archive)
    folder.mkdir()
    files: dict[str, Path] = {}
    with tarfile.open(archive) as image:
        layer = image.extractfile("blobs/" + manifest["layers"][0]["digest"].replace(":", "/"))
        with tarfile.open(fileobj=layer) as tar:
            for entry in filter(tarfile.TarInfo.isfile, tar):
                path = files[Path(entry.name).name] = folder / Path(entry.name).name
                content = tar.extractfile(entry)
                assert content is not None
                with path.open("wb") as file:
                    shutil.copyfileobj(content, file)
    return files


def make_disks(folder: Path) -> list[str]:
    """QEMU's arguments for /dev/vda to vdc: an empty disk, one that is too small, and one that is in use."""
    argv: list[str] = []
    for name, size in (("empty", 8 * GIB), ("small", GIB), ("used", 8 * GIB)):
        path = folder / f"{name}.raw"
        path.touch()
        os.truncate(path, size)
        argv += ["-drive", f"if=virtio,format=raw,discard=unmap,file={path}"]
    program = shutil.which("mkfs.xfs", path=tool_path())
    assert program
    run_command([program, "-q", str(folder / "used.raw")])
    return argv


async def install(archive: Path, disk: str, address: str) -> tuple[Sequence[str], int]:
    """Send a release and install it: the installer's lines, and its exit code."""
    async with open_session(Target(endpoints=(), nodes=(address,), insecure=True)) as session:
        image = await send_archive(session, address, CONTAINERD, archive)
        return await asyncio.wait_for(run_installer(session, address, image, disk), INSTALL_TIMEOUT)


async def fail(image: str, address: str) -> RpcError:
    """How an installation fails that does not begin."""
    async with open_session(Target(endpoints=(), nodes=(address,), insecure=True)) as session:
        with pytest.raises(RpcError) as failed:
            await run_installer(session, address, image, "/dev/vda")
        return failed.value


async def reboot(address: str) -> None:
    async with open_session(Target(endpoints=(), nodes=(address,), insecure=True)) as session:
        path = "/machine.MachineService/Reboot"
        await session.unary(address, path, RebootRequest(mode=RebootRequest.FORCE), RebootResponse)


def make_link(segment: Segment, address: IPv4Address, seconds: float, folder: Path) -> None:
    """Let both ends have an address of one network, as those of SideroLink's tunnel have."""
    with segment.inside(), IPRoute() as netlink:
        (index,) = netlink.link_lookup(ifname=TAPS[0])
        netlink.addr("add", index=index, address=MANAGER, prefixlen=64, flags=IFA_F_NODAD)
    words = call_machine(segment, address, "get", "links").split()
    config = folder / "link.yaml"
    name = next(word for word in words if word.startswith("enp"))
    config.write_text(LINK.format(name=name, address=ADDRESS))
    call_machine(segment, address, "apply-config", "--file", str(config))

    def answers() -> None:
        try:
            with segment.inside(), socket.create_connection((str(ADDRESS), 50000), 5):
                pass
        except OSError as error:
            raise AssertionError(str(error)) from error

    eventually("the machine has its address", answers, seconds=seconds)


def test_a_machine_without_a_config_is_installed_by_its_manager(
    assets: Path, programs: Programs, accelerator: Accelerator, releases: Releases, tmp_path: Path
) -> None:
    disks, seconds = make_disks(tmp_path), CALL_TIMEOUT * accelerator.factor
    initramfs = tmp_path / "initramfs"
    initramfs.write_bytes((assets / "initramfs").read_bytes() + releases.stamp("v1.15.0").read_bytes())
    first = machine(
        programs,
        accelerator,
        *("-no-reboot", *disks, *kernel(assets, accelerator, initramfs)),
        memory=MEMORY,
    )
    with make_segment(OURS) as segment, watch("dnsmasq", dhcp(programs), segment, tmp_path):
        with watch("waiting", first, segment, tmp_path) as waiting:
            address = IPv4Address(waiting.wait_for(MAINTENANCE, BOOT_TIMEOUT * accelerator.factor))
            eventually("the API answers", lambda: call_machine(segment, address, "version"), seconds=seconds)
            make_link(segment, address, seconds, tmp_path)
            with segment.inside():
                check_refused(releases, address, tmp_path)
                lines, code = asyncio.run(install(release(releases), "/dev/vda", str(ADDRESS)))
                print("".join(lines))  # noqa: T201
                assert (code, lines[-1]) == (0, "/dev/vda is installed\n"), lines
                assert f"{VERSION}, commit test, is complete and signed" in lines[1]
                again = asyncio.run(fail("installer", str(ADDRESS)))
                assert (again.code, again.message) == (Code.ALREADY_EXISTS, "Talos is already installed")
                asyncio.run(reboot(str(ADDRESS)))
            waiting.process.wait(seconds)
        second = machine(programs, accelerator, *disks, *firmware(programs, tmp_path), memory=MEMORY)
        with watch("installed", second, segment, tmp_path) as installed:
            installed.wait_for(r"BOOT_IMAGE=\S*/A/vmlinuz", FIRMWARE_TIMEOUT * accelerator.factor)
            check_installed(segment, address, accelerator, tmp_path)


def release(releases: Releases) -> Path:
    """The archive of a signed release."""
    releases.make(VERSION)
    return releases.images / f"{VERSION}.tar"


def firmware(programs: Programs, folder: Path) -> list[str]:
    """UEFI, with variables of the machine's own."""
    variables = folder / "variables.fd"
    shutil.copyfile(programs.file("usr/share/OVMF/OVMF_VARS_4M.fd"), variables)
    code = programs.file("usr/share/OVMF/OVMF_CODE_4M.fd")
    return [
        *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}"),
        *("-drive", f"if=pflash,unit=1,format=raw,file={variables}"),
    ]


def check_refused(releases: Releases, address: IPv4Address, folder: Path) -> None:
    """A client that is no manager, a release that is not signed or lacks GRUB, and disks that won't do."""
    stranger = asyncio.run(fail("installer", str(address)))
    assert stranger.code is Code.PERMISSION_DENIED, stranger
    unsigned = make_release(folder / "unsigned", version=VERSION)
    signed = folder / "signed.tar"
    manifest, _ = read_annotations(read_archive(unsigned)[1]["annotations"], str(unsigned))
    add_signature(unsigned, signed, sign(manifest, releases.key))
    for archive, disk, reason in (
        (unsigned, "/dev/vda", "the release is not signed"),
        (signed, "/dev/vda", "it lacks boot.img, so it can't be installed"),
        (signed, "/dev/vdz", "there is no disk /dev/vdz"),
        (signed, "/dev/vdb", "is too small, the partitions need"),
        (signed, "/dev/vdc", "is not empty: xfs"),
    ):
        lines, code = asyncio.run(install(archive, disk, str(ADDRESS)))
        assert (code, reason in lines[-1]) == (2, True), (disk, lines, code)
        assert lines[-1].count("\n") == 1, "it is no line"


def check_installed(segment: Segment, address: IPv4Address, accelerator: Accelerator, folder: Path) -> None:
    """It waits for a config; with one it has its volumes, and what runs is what was installed."""
    seconds = BOOT_TIMEOUT * accelerator.factor
    eventually("the API answers", lambda: call_machine(segment, address, "version"), seconds=seconds)
    cluster = Cluster(REPOSITORY / "build/bin/talosctl", folder / "cluster")
    call_machine(segment, address, "apply-config", "--file", str(cluster.config(disk="/dev/vda")))

    def has_volumes() -> None:
        text = call_machine(
            segment, address, "get", "volumestatus", "-o", "json", talosconfig=cluster.talosconfig
        )
        phases = {at(found, "metadata.id"): at(found, "spec.phase") for found in parse_documents(text)}
        for name in ("META", "STATE", "EPHEMERAL"):
            assert phases.get(name) == "ready", phases

    eventually("the volumes are ready", has_volumes, seconds=seconds)
    call = (segment, address)
    assert VERSION in call_machine(*call, "version", talosconfig=cluster.talosconfig)
    assert "/A/vmlinuz" in call_machine(*call, "read", "/proc/cmdline", talosconfig=cluster.talosconfig)
