"""From a request to the arguments of QEMU and dnsmasq; nothing here has an effect."""

import math
import uuid
from pathlib import Path

from talos.provision.cluster import ClusterRequest, Disk, NodeRequest
from talos.provision.host.links import hardware_address
from talos.provision.store import ClusterFolder

MIN_MEMORY = 2 << 30
"""For a node without a limit, in bytes."""
LEASE_TIME = "12h"
_DEVICES = {
    "virtio": "virtio-blk-pci",
    "nvme": "nvme",
    "ahci": "ide-hd",
    "scsi": "scsi-hd",
}


def make_machine(folder: ClusterFolder, request: ClusterRequest, node: NodeRequest, tap: str) -> list[str]:
    """Everything but the program and the processor.

    The firmware tries the first disk, then the ISO: an empty disk is installed to, later it is what boots.
    """
    megabytes = (node.memory or MIN_MEMORY) >> 20
    argv = ["-name", node.name, "-machine", "q35", "-m", str(megabytes)]
    argv += ["-smp", str(max(1, math.ceil(node.cpus or 1)))]
    argv += ["-nodefaults", "-display", "none", "-vga", "std", "-device", "virtio-rng-pci"]
    # The identity of the machine, which is the same after it was switched off.
    argv += ["-uuid", str(uuid.uuid5(uuid.NAMESPACE_URL, str(folder.node(node.name))))]
    argv += ["-chardev", f"file,id=serial,path={_escape(folder.console(node.name))},append=on"]
    argv += ["-serial", "chardev:serial"]
    if any(disk.driver == "scsi" for disk in node.disks):
        argv += ["-device", "virtio-scsi-pci,id=scsi"]
    for number, disk in enumerate(node.disks):
        argv += _make_disk(folder.machine_disk(node.name, number), disk, number)
    drive = f"id=cdrom,file={_escape(request.image)},format=raw,media=cdrom,readonly=on,if=none"
    argv += ["-drive", drive, "-device", "ide-cd,drive=cdrom,bus=ide.5,bootindex=60"]
    argv += ["-netdev", f"tap,id=lan,ifname={tap},script=no,downscript=no"]
    # Without a ROM: a machine that finds nothing to boot stays where it is.
    card = f"virtio-net-pci,netdev=lan,mac={hardware_address(node.address)},romfile="
    return [*argv, "-device", card]


def _make_disk(path: Path, disk: Disk, number: int) -> list[str]:
    name = f"disk{number}"
    device = f"{_DEVICES[disk.driver]},drive={name},serial={name},bootindex={number + 1}"
    if disk.driver == "ahci":
        device += f",bus=ide.{number}"
    if disk.driver == "scsi":
        device += ",bus=scsi.0"
    drive = f"id={name},file={_escape(path)},format=raw,if=none,discard=unmap"
    return ["-drive", drive, "-device", device]


def _escape(path: Path) -> str:
    """A comma ends a value; two are one."""
    return str(path).replace(",", ",,")


def make_dhcp(request: ClusterRequest, bridge: str, leases: Path) -> list[str]:
    """Of dnsmasq: each machine gets its own address and name, other clients get none."""
    subnet = request.subnet
    nameservers = ",".join(map(str, request.nameservers))
    argv = [
        "--keep-in-foreground",
        "--log-facility=-",
        "--conf-file=/dev/null",
        "--pid-file",
        "--port=0",  # no DNS
        "--user=root",  # the leases are in a folder of root's
        f"--interface={bridge}",
        "--except-interface=lo",
        "--bind-interfaces",
        "--dhcp-authoritative",
        f"--dhcp-leasefile={leases}",
        f"--dhcp-range={subnet.network_address},static,{subnet.netmask},{LEASE_TIME}",
        f"--dhcp-option=option:router,{request.gateway}",
        # An empty option keeps dnsmasq from naming itself, which is no resolver.
        f"--dhcp-option=option:dns-server{',' + nameservers if nameservers else ''}",
        f"--dhcp-option=option:mtu,{request.mtu}",
    ]
    hosts = (
        f"--dhcp-host={hardware_address(node.address)},{node.address},{node.name}" for node in request.nodes
    )
    return [*argv, *hosts]
