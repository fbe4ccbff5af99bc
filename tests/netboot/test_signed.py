"""UEFI boots a signed image from the boot server by HTTP, under Secure Boot, and it installs itself."""

import json
import os
import sys
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from driver.accelerator import Accelerator
from driver.arguments import STUB_ARGUMENTS
from driver.configs import NO_KUBERNETES, Cluster
from driver.programs import Programs
from tests.harness.cluster import REPOSITORY, eventually
from tests.netboot.conftest import BUILD, ROOT_VARIABLE
from tests.netboot.machine import MAINTENANCE, call_machine
from tests.netboot.segment import TAPS, Segment, make_segment
from tests.netboot.watched import watch

from talos.secureboot.keys import read_keys
from talos.secureboot.netboot import sign_netboot

pytestmark = [
    pytest.mark.root,
    pytest.mark.soak,
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

OURS, URL = "10.77.0.1/24", "http://10.77.0.1:8080/assets"
RANGE = "10.77.0.50,10.77.0.90"
MAC = "52:54:00:12:00:01"
KEY, CERTIFICATE = "usr/share/ovmf/PkKek-1-snakeoil.key", "usr/share/ovmf/PkKek-1-snakeoil.pem"
PASSPHRASE = b"snakeoil"
"""Debian's key pair for tests, whose certificate the variables of its snakeoil firmware have enrolled."""
LOAD_TIMEOUT, BOOT_TIMEOUT, INSTALL_TIMEOUT = 600, 400, 600
"""Seconds: an emulated firmware loads and hashes the image; from there to the API; an installation."""
DISK_SIZE = 8 << 30


@pytest.fixture
def signed(programs: Programs, tmp_path: Path) -> Path:
    """The folder that the boot server serves, signed by the key that the firmware has."""
    uki, keys = BUILD / "uki", tmp_path / "keys"
    if not uki.exists():
        pytest.skip(f"there is no {uki}: make soak-vm makes it")
    keys.mkdir()
    key = load_pem_private_key(programs.file(KEY).read_bytes(), PASSPHRASE)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (keys / "uki-signing-key.pem").write_bytes(pem)
    (keys / "uki-signing-cert.pem").write_bytes(programs.file(CERTIFICATE).read_bytes())
    sign_netboot(uki, read_keys(keys), tmp_path / "signed", URL)
    return tmp_path / "signed"


def make_machine(programs: Programs, accelerator: Accelerator, folder: Path) -> list[str]:
    """A machine with an empty disk, on a firmware with Secure Boot on."""
    disk, variables = folder / "disk.raw", folder / "variables.fd"
    disk.touch()
    os.truncate(disk, DISK_SIZE)
    variables.write_bytes(programs.file("usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd").read_bytes())
    code = programs.file("usr/share/OVMF/OVMF_CODE_4M.secboot.fd")
    argv = [*programs.qemu, *accelerator.argv, "-machine", "q35,smm=on", "-smp", "1", "-m", "2048"]
    argv += ["-nodefaults", "-display", "none", "-vga", "std", "-device", "virtio-rng-pci"]
    argv += ["-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial"]
    argv += ["-global", "driver=cfi.pflash01,property=secure,value=on"]
    argv += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}"]
    argv += ["-drive", f"if=pflash,unit=1,format=raw,file={variables}"]
    argv += ["-smbios", f"type=11,value={STUB_ARGUMENTS}={' '.join(accelerator.arguments)}"]
    # Before HTTP firmware would wait for PXE, by IPv4 and IPv6.
    for version in (4, 6):
        argv += ["-fw_cfg", f"name=opt/org.tianocore/IPv{version}PXESupport,string=n"]
    argv += ["-drive", f"id=disk,if=none,format=raw,discard=unmap,file={disk}"]
    argv += ["-device", "virtio-blk-pci,drive=disk,bootindex=1"]
    argv += ["-netdev", f"tap,id=net,ifname={TAPS[0]},script=no,downscript=no"]
    return [*argv, "-device", f"virtio-net-pci,netdev=net,mac={MAC},bootindex=2,romfile="]


def test_a_machine_installs_itself_from_the_server_that_it_was_started_from(
    signed: Path,
    programs: Programs,
    accelerator: Accelerator,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "python"))
    server_argv = [sys.executable, "-m", "talos.provision.pxe.main", str(signed)]
    server_argv += ["--interface", TAPS[0], "--mode", "full", "--range", RANGE]
    cluster = Cluster(REPOSITORY / "build/bin/talosctl", tmp_path / "cluster")
    config = cluster.config(NO_KUBERNETES, disk="/dev/vda")
    with (
        make_segment(OURS) as segment,
        watch("pxe", server_argv, segment, tmp_path) as server,
        watch("machine", make_machine(programs, accelerator, tmp_path), segment, tmp_path) as machine,
    ):
        server.wait_for(f"UEFI boots from {URL}/talos.efi", LOAD_TIMEOUT)
        server.wait_for(r"has loaded talos\.efi, ", accelerator.factor * LOAD_TIMEOUT)
        address = IPv4Address(machine.wait_for(MAINTENANCE, accelerator.factor * BOOT_TIMEOUT))
        wait_for_state(segment, address)

        call_machine(segment, address, "apply-config", "--file", str(config))
        server.wait_for(r"has loaded systemd-boot\.efi, ", accelerator.factor * INSTALL_TIMEOUT)
        machine.wait_for(r"sequence install: done|reboot now", accelerator.factor * INSTALL_TIMEOUT)
        machine.wait_for(r"service\[apid\].*Running", accelerator.factor * BOOT_TIMEOUT)
        wait_for_state(segment, address, cluster.talosconfig)
        slots = call_machine(segment, address, "get", "bootedentry", talosconfig=cluster.talosconfig)
        assert "talos-a.efi" in slots


def wait_for_state(segment: Segment, address: IPv4Address, talosconfig: Path | None = None) -> None:
    """The machine answers, was started from a UKI, and by a firmware with Secure Boot on."""

    def check() -> None:
        shown = call_machine(segment, address, "get", "securitystate", "-o", "json", talosconfig=talosconfig)
        spec = json.loads(shown)["spec"]
        assert (spec["secureBoot"], spec["bootedWithUKI"]) == (True, True), spec

    eventually("its API answers", check, seconds=BOOT_TIMEOUT)
