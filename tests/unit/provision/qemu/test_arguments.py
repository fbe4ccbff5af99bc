"""Arguments of QEMU and of the DHCP server beside it."""

from itertools import pairwise
from pathlib import Path

import pytest

from talos.provision.cluster import ClusterRequest, Disk, Provider, Role
from talos.provision.plan import ClusterOptions, make_request
from talos.provision.qemu.accelerator import has_flags
from talos.provision.qemu.arguments import make_dhcp, make_machine
from talos.provision.qemu.checks import check_iso
from talos.provision.qemu.programs import find_programs
from talos.provision.store import ClusterFolder
from talos.system.errors import UserError

FOLDER = ClusterFolder(Path("/clusters/a,b"))


@pytest.fixture
def request_() -> ClusterRequest:
    return make_request(
        ClusterOptions(
            image=Path("/talos.iso"),
            provider=Provider.QEMU,
            disks=[Disk("virtio", 10 << 30), Disk("nvme", 6 << 30), Disk("scsi", 6 << 30)],
            cpus={Role.CONTROL_PLANE: 1.5},
            memory={Role.CONTROL_PLANE: 3 << 30},
            nameservers=["9.9.9.9"],
            mtu=1400,
        )
    )


def options(argv: list[str], name: str) -> list[str]:
    return [value for key, value in pairwise(argv) if key == name]


def test_a_machine_boots_its_first_disk_then_the_iso(request_: ClusterRequest) -> None:
    argv = make_machine(FOLDER, request_, request_.nodes[0], "tap2")
    devices = options(argv, "-device")
    assert [device for device in devices if "bootindex" in device] == [
        "virtio-blk-pci,drive=disk0,serial=disk0,bootindex=1",
        "nvme,drive=disk1,serial=disk1,bootindex=2",
        "scsi-hd,drive=disk2,serial=disk2,bootindex=3,bus=scsi.0",
        "ide-cd,drive=cdrom,bus=ide.5,bootindex=60",
    ]
    assert devices[-1] == "virtio-net-pci,netdev=lan,mac=02:54:0a:05:00:02,romfile="
    assert options(argv, "-smp") == ["2"]
    assert options(argv, "-m") == ["3072"]
    assert "path=/clusters/a,,b/talos-default-controlplane-1/console.log" in options(argv, "-chardev")[0]


def test_machines_differ_and_stay_the_same(request_: ClusterRequest) -> None:
    uuids = [options(make_machine(FOLDER, request_, node, "tap"), "-uuid") for node in request_.nodes]
    assert uuids[0] != uuids[1]
    assert uuids[0] == options(make_machine(FOLDER, request_, request_.nodes[0], "tap"), "-uuid")


def test_every_machine_has_a_reserved_address(request_: ClusterRequest) -> None:
    argv = make_dhcp(request_, "br0", Path("/leases"))
    assert "--dhcp-range=10.5.0.0,static,255.255.255.0,12h" in argv
    assert "--dhcp-host=02:54:0a:05:00:03,10.5.0.3,talos-default-worker-1" in argv
    assert "--dhcp-option=option:router,10.5.0.1" in argv
    assert "--dhcp-option=option:dns-server,9.9.9.9" in argv
    assert "--dhcp-option=option:mtu,1400" in argv


def test_programs_of_a_pinned_root_run_through_its_loader(tmp_path: Path) -> None:
    for name in ("usr/bin/qemu-system-x86_64", "usr/sbin/dnsmasq"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    programs = find_programs({"TALOS_VM_ROOT": str(tmp_path)})
    assert programs.dnsmasq[0].endswith("ld-linux-x86-64.so.2")
    assert programs.dnsmasq[-1] == f"{tmp_path}/usr/sbin/dnsmasq"
    assert f"{tmp_path}/usr/share/seabios" in programs.qemu
    with pytest.raises(UserError, match="there is no qemu-system-x86_64"):
        find_programs({"TALOS_VM_ROOT": "/nowhere"})


def test_an_iso_is_looked_at(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with pytest.raises(UserError, match="No such file"):
        check_iso(image)
    image.write_bytes(b"hsqs" + bytes(1 << 16))
    with pytest.raises(UserError, match="no ISO image"):
        check_iso(image)
    image.write_bytes(bytes(0x8001) + b"CD001")
    check_iso(image)


def test_processors_that_can_run_guests_are_known_by_their_flags() -> None:
    assert has_flags("processor : 0\nflags\t: fpu vmx sse\n")
    assert not has_flags("flags\t: fpu vmxoff\n")
