"""From a test's description of a machine to QEMU's arguments."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from driver.accelerator import (
    MAX_FACTOR,
    TCG_ARGUMENTS,
    Accelerator,
    clock_arguments,
    has_flags,
    scale,
)
from driver.arguments import Files, kernel_arguments, mac, make_arguments
from driver.assets import Assets
from driver.client import Client, at, parse_documents
from driver.disks import add_to_initramfs, pack_file
from driver.failure import VmTestError
from driver.hub import Forward, hub_arguments
from driver.node import Disk, Node
from driver.programs import Programs

QMP = Path("/t/qmp")


def argv(node: Node, files: Files, *, has_io_uring: bool = False) -> str:
    return " ".join(make_arguments(node, files, name="n", index=1, port=50123, has_io_uring=has_io_uring))


def test_pvh_gets_kernel_initramfs_and_arguments() -> None:
    node = Node(arguments=("talos.config=http://x/",), without=("pti=on",))
    files = Files(
        kernel=Path("/k"), initramfs=Path("/i"), cmdline="slab_nomerge=\npti=on\n", disks={}, qmp=QMP
    )
    line = argv(node, files)
    assert "-kernel /k -initrd /i" in line
    assert "slab_nomerge= console=ttyS0 talos.platform=metal talos.config=http://x/" in line
    assert "pti=on" not in line
    assert "hostfwd=tcp:127.0.0.1:50123-:50000" in line
    assert kernel_arguments(Node(), "a\nb\n") == "a b console=ttyS0 talos.platform=metal"


def test_firmware_starts_from_disks_then_the_disc_then_the_network() -> None:
    node = Node(
        boot="bios", netboot=True, disks={"one": Disk(size="8G"), "two": Disk(size="8G", sector=4096)}
    )
    files = Files(disks={"one": Path("/1"), "two": Path("/2")}, cdrom=Path("/cd"), qmp=QMP)
    line = argv(node, files)
    assert "-kernel" not in line
    assert "virtio-blk-pci,drive=one,serial=one,bootindex=1 " in line
    assert "serial=two,bootindex=2,logical_block_size=4096,physical_block_size=4096" in line
    assert "ide-cd,drive=cdrom,bus=ide.1,bootindex=60" in line
    assert f"mac={mac(1)},bootindex=70" in line


def test_a_plain_disk_has_nothing_in_qemus_own_memory() -> None:
    node = Node(boot="bios", disks={"one": Disk(size="8G", raw=True)})
    line = argv(node, Files(disks={"one": Path("/1.raw")}, qmp=QMP))
    assert "-drive id=one,file=/1.raw,format=raw,if=none,discard=unmap,cache=unsafe " in line


def test_disks_are_read_by_the_thread_of_the_processor_where_the_host_lets_it() -> None:
    disks = {
        "one": Disk(size="8G"),
        "two": Disk(size="8G", bus="nvme"),
        "three": Disk(size="8G", recorded=True),
    }
    files = Files(disks={name: Path(name) for name in disks}, qmp=QMP)
    line = argv(Node(boot="bios", disks=disks), files, has_io_uring=True)
    assert line.count(",aio=io_uring ") == 2
    assert "virtio-blk-pci,ioeventfd=off,drive=one," in line
    assert "nvme,drive=two," in line
    assert "werror=report,rerror=report -device virtio-blk-pci,drive=three," in line
    assert "io_uring" not in argv(Node(boot="bios", disks=disks), files)


def test_a_tpm_is_a_program_that_qemu_connects_to() -> None:
    line = argv(
        Node(boot="uefi", tpm=True),
        Files(code=Path("/c"), variables=Path("/v"), disks={}, qmp=QMP, tpm=Path("/t/tpm.socket")),
    )
    assert "-chardev socket,id=tpm,path=/t/tpm.socket -tpmdev emulator,id=tpm0,chardev=tpm " in line
    assert "-device tpm-crb,tpmdev=tpm0" in line


def test_without_netboot_the_card_has_no_rom() -> None:
    assert f"mac={mac(1)},romfile=" in argv(Node(boot="bios"), Files(disks={}, qmp=QMP))


def test_uefi_has_code_that_is_read_only_and_variables_that_are_kept() -> None:
    files = Files(disks={}, qmp=QMP, code=Path("/code"), variables=Path("/vars"))
    line = argv(Node(boot="uefi"), files)
    assert "if=pflash,unit=0,format=raw,readonly=on,file=/code" in line
    assert "if=pflash,unit=1,format=raw,file=/vars" in line
    assert "smm=on" not in line
    secure = argv(Node(boot="uefi", secure_boot=True), files)
    assert "-machine q35,smm=on " in secure
    assert "-global driver=cfi.pflash01,property=secure,value=on" in secure
    assert "-smbios" not in secure
    more = argv(Node(boot="uefi", secure_boot=True), replace(files, cmdline="nohz=off nopti"))
    assert "-smbios type=11,value=io.systemd.stub.kernel-cmdline-extra=nohz=off nopti" in more


def test_the_lan_is_a_second_card_on_the_hub() -> None:
    line = argv(Node(boot="bios", lan=True), Files(disks={}, qmp=QMP, lan=Path("/lan")))
    assert "addr.path=/lan" in line
    assert f"netdev=n1,mac={mac(1, 1)}" in line
    hub = " ".join(hub_arguments([Path("/a"), Path("/b")], Path("/q")))
    assert hub.count("hubid=0") == 2
    assert "addr.path=/b" in hub


def test_processors() -> None:
    assert has_flags("processor: 0\nflags\t\t: fpu vmx sse\n")
    assert not has_flags("flags : fpu sse svmx\n")
    assert scale(0.1) == 1
    assert scale(1e9) == MAX_FACTOR
    assert clock_arguments("cpu MHz\t\t: 2596.144\n") == ("tsc_early_khz=2596144",)
    assert clock_arguments("") == ()


def test_an_asset_that_the_test_does_not_list_is_named() -> None:
    with pytest.raises(VmTestError, match='the asset "iso" is not in the test\'s ASSETS, which are kernel'):
        Assets({"kernel": Path("/k")}).path("iso")


def test_programs_run_with_their_own_loader(tmp_path: Path) -> None:
    program = tmp_path / "usr/sbin/dnsmasq"
    program.parent.mkdir(parents=True)
    program.touch()
    found = Programs((Path("/nowhere"), tmp_path)).argv("dnsmasq")
    assert found[0] == f"{tmp_path}/lib64/ld-linux-x86-64.so.2"
    assert found[-1] == str(program)
    with pytest.raises(VmTestError, match="no program xorriso"):
        Programs((tmp_path,)).argv("xorriso")


def test_talosctl_knows_where_the_machine_is(tmp_path: Path) -> None:
    client = Client(Path("/talosctl"), 50123, tmp_path)
    assert client.argv(["version"], insecure=True) == [
        *("/talosctl", "version", "--insecure", "--nodes", "127.0.0.1:50123")
    ]
    client.talosconfig = Path("/tc")
    assert "--talosconfig /tc --endpoints 127.0.0.1:50123" in " ".join(client.argv(["x"], insecure=False))


def test_documents() -> None:
    found = parse_documents('{"spec": {"stage": "running"}}\n{"spec": null}\n')
    assert at(found[0], "spec.stage") == "running"
    assert at(found[1], "spec.stage") is None
    assert parse_documents("") == []


def test_a_file_is_added_to_an_initramfs(tmp_path: Path) -> None:
    first = tmp_path / "initramfs"
    first.write_bytes(gzip.compress(b"x"))
    data = add_to_initramfs(first, tmp_path / "out", "vmlinuz", b"kernel").read_bytes()
    start = data.index(b"070701")
    assert start % 4 == 0
    assert data[start:] == pack_file("vmlinuz", b"kernel")
    assert b"vmlinuz\0" in data
    assert data.endswith(b"TRAILER!!!\0\0\0\0")


def test_a_machine_with_an_address_is_reached_over_the_network_that_machines_share() -> None:
    node = Node(boot="bios", address="10.0.2.11", ports=(2383,))
    line = argv(node, Files(disks={}, qmp=QMP, lan=Path("/lan")))
    assert "hostfwd" not in line
    assert line.count("virtio-net-pci") == 1
    assert "stream,id=n0,server=off,addr.type=unix,addr.path=/lan" in line
    forwards = [Forward(port=50123, address="10.0.2.11", target=2383)]
    hub = " ".join(hub_arguments([Path("/a")], Path("/q"), forwards, ["bootfile=x"]))
    assert "user,id=out,hostfwd=tcp:127.0.0.1:50123-10.0.2.11:2383,bootfile=x" in hub
    assert hub.count("hubid=0") == 2


def test_a_machine_may_keep_more_translated_code() -> None:
    accelerator = Accelerator(name="emulation", argv=TCG_ARGUMENTS, factor=1)
    assert accelerator.with_cache(160) == TCG_ARGUMENTS
    assert accelerator.with_cache(768)[:2] == ("-accel", "tcg,thread=multi,tb-size=768")
