"""From a node to QEMU's arguments. Nothing here has an effect, so that it can be tried without a machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from driver.guest_agent import PORT
from driver.node import Node

CONSOLE = ("console=ttyS0", "talos.platform=metal")
"""What a kernel gets that no boot loader starts, besides our command line."""
STUB_ARGUMENTS = "io.systemd.stub.kernel-cmdline-extra"
"""The string of SMBIOS by which systemd's stub, which starts a signed image, adds arguments of the kernel."""
HOST = "10.0.2.2"
"""The machine that runs the test, as its machines see it (QEMU's user network)."""
API_PORT = 50000


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Where everything is that a machine is started with."""

    kernel: Path | None = None
    initramfs: Path | None = None
    cmdline: str = ""
    disks: Mapping[str, Path]
    cdrom: Path | None = None
    code: Path | None = None
    variables: Path | None = None
    qmp: Path
    lan: Path | None = None
    agent: Path | None = None
    tpm: Path | None = None


def mac(index: int, card: int = 0) -> str:
    """The address of a machine's card: in QEMU's range, so that nothing real has it."""
    return f"52:54:00:12:{card:02x}:{index:02x}"


def kernel_arguments(node: Node, ours: str) -> str:
    """The kernel's command line, when no boot loader makes it."""
    argv = [word for word in (*ours.split(), *CONSOLE) if word not in node.without]
    return " ".join([*argv, *node.arguments])


def make_arguments(
    node: Node, files: Files, *, name: str, index: int, port: int, has_io_uring: bool
) -> list[str]:
    """Everything but the program, the processor and the console. ``port`` on loopback leads to the API."""
    # Firmware keeps Secure Boot's keys where only its own code, in system management mode, can write.
    machine = "q35,smm=on" if node.secure_boot else "q35"
    argv = ["-name", name, "-machine", machine, "-smp", str(node.processors), "-m", str(node.memory)]
    argv += ["-nodefaults", "-display", "none", "-vga", "std"]
    argv += ["-qmp", f"unix:{files.qmp},server=on,wait=off"]
    argv += ["-device", "virtio-rng-pci"]
    if node.watchdog:
        argv += ["-device", "i6300esb"]
    if node.uuid:
        argv += ["-uuid", node.uuid]
    if files.agent is not None:
        argv += ["-chardev", f"socket,id=agent,path={files.agent},server=on,wait=off"]
        argv += ["-device", "virtio-serial-pci", "-device", f"virtserialport,chardev=agent,name={PORT}"]
    if files.tpm is not None:
        argv += ["-chardev", f"socket,id=tpm,path={files.tpm}", "-tpmdev", "emulator,id=tpm0,chardev=tpm"]
        argv += ["-device", "tpm-crb,tpmdev=tpm0"]
    argv += _boot(node, files)
    for place, disk in enumerate(node.disks):
        argv += _disk(node, disk, files.disks[disk], place, has_io_uring=has_io_uring)
    if files.cdrom is not None:
        argv += ["-drive", f"id=cdrom,file={files.cdrom},format=raw,media=cdrom,readonly=on,if=none"]
        argv += ["-device", "ide-cd,drive=cdrom,bus=ide.1,bootindex=60"]
    if node.address:
        assert files.lan, "a machine with an address needs the network that machines share"
        argv += ["-netdev", _join("n0", files.lan)]
    else:
        forward = f"hostfwd=tcp:127.0.0.1:{port}-:{API_PORT}"
        argv += ["-netdev", ",".join(("user", "id=n0", forward, *node.network))]
    card = f"virtio-net-pci,id=card0,netdev=n0,mac={mac(index)}"
    if node.netboot:
        argv += ["-device", f"{card},bootindex=70"]
    else:
        argv += [
            "-device",
            f"{card},romfile=",
        ]  # a machine that finds nothing else must not boot from the network
    if node.lan and files.lan is not None:
        argv += ["-netdev", _join("n1", files.lan)]
        argv += ["-device", f"virtio-net-pci,id=card1,netdev=n1,mac={mac(index, 1)},romfile="]
    return argv


def _join(name: str, hub: Path) -> str:
    return f"stream,id={name},server=off,addr.type=unix,addr.path={hub},reconnect-ms=100"


def _boot(node: Node, files: Files) -> list[str]:
    if node.boot == "pvh":
        assert files.kernel, "a machine that boots by pvh needs a kernel"
        assert files.initramfs, "a machine that boots by pvh needs an initramfs"
        line = kernel_arguments(node, files.cmdline)
        return ["-kernel", str(files.kernel), "-initrd", str(files.initramfs), "-append", line]
    if node.boot == "uefi":
        assert files.code, "a machine with UEFI needs its code"
        assert files.variables, "a machine with UEFI needs its variables"
        code = f"if=pflash,unit=0,format=raw,readonly=on,file={files.code}"
        argv = ["-drive", code, "-drive", f"if=pflash,unit=1,format=raw,file={files.variables}"]
        if node.secure_boot:
            argv += ["-global", "driver=cfi.pflash01,property=secure,value=on"]
            if files.cmdline:
                argv += ["-smbios", f"type=11,value={STUB_ARGUMENTS}={files.cmdline}"]
        return argv
    return []


def _disk(node: Node, name: str, path: Path, place: int, *, has_io_uring: bool) -> list[str]:
    disk = node.disks[name]
    model = {"virtio": "virtio-blk-pci", "nvme": "nvme"}[disk.bus]
    # What the machine flushed is in the host's memory: a killed QEMU loses only what it had not flushed.
    drive = f"id={name},file={path},format=qcow2,if=none,discard=unmap"
    if disk.raw:
        # There, too, is what it did not flush: nothing of such a disk is in QEMU's own memory.
        drive = f"id={name},file={path},format=raw,if=none,discard=unmap,cache=unsafe"
    if disk.recorded:
        drive = f"id={name},driver=raw,file.driver=nbd,file.server.type=unix,file.server.path={path},if=none"
        drive += ",werror=report,rerror=report"
    elif has_io_uring:
        # The thread that plays the processor reads what is in the host's memory itself, at once. Else other
        # threads have to run first, for which firmware spins.
        drive += ",aio=io_uring"
        model += ",ioeventfd=off" if disk.bus == "virtio" else ""
    device = f"{model},drive={name},serial={name},bootindex={place + 1}"
    if disk.sector != 512:
        device += f",logical_block_size={disk.sector},physical_block_size={disk.sector}"
    return ["-drive", drive, "-device", device]
