"""Machines boot over a network from `nix run .#pxe`: its dnsmasq, its iPXE, its web server."""

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from driver.accelerator import Accelerator
from driver.programs import Programs
from tests.harness.cluster import eventually
from tests.netboot.conftest import ROOT_VARIABLE
from tests.netboot.segment import TAPS, Segment, make_segment
from tests.netboot.watched import Watched, watch

pytestmark = [
    pytest.mark.root,
    # A child sets its death signal between fork and exec, while threads read the others' output.
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

SOURCES = Path(__file__).parents[2] / "python"
MAC = "52:54:00:12:00:01"
API_PORT = 50000
OURS, OTHERS = "10.77.0.1/24", "10.77.0.2/24"
URL = "http://10.77.0.1:8080"
FIRST, LAST = IPv4Address("10.77.0.50"), IPv4Address("10.77.0.90")
MEMORY = 1536
"""MiB."""
SERVER_TIMEOUT = 30  # seconds
LOAD_TIMEOUT = 360  # seconds
"""Firmware and iPXE, on emulated processors."""
BOOT_TIMEOUT = 300
"""From the kernel's first line to the API."""
API_TIMEOUT = 120
"""From the line with the machine's address until it can be reached."""
MAINTENANCE = r"apply-config --insecure --nodes (\d+\.\d+\.\d+\.\d+) "
CONFIG = "apiVersion: v1alpha1\nkind: StaticHostConfig\nname: 10.77.0.99\nhostnames: [from-the-server]\n"
"""A part of a config: with it alone a machine is still in maintenance mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everything that a machine and its boot server are started with."""

    assets: Path
    programs: Programs
    accelerator: Accelerator
    folder: Path

    def seconds(self, usual: float) -> float:
        return usual * self.accelerator.factor

    def serve(self, segment: Segment, *argv: str) -> AbstractContextManager[Watched]:
        """The boot server in a network, started by its command line."""
        command = [sys.executable, "-m", "talos.provision.pxe.main", str(self.assets)]
        command += ["--interface", TAPS[0], *argv]
        for argument in self.accelerator.arguments:
            command += ["--argument", argument]
        return watch("pxe", command, segment, self.folder)

    def serve_addresses(self, segment: Segment) -> AbstractContextManager[Watched]:
        """A DHCP server that is not ours, on the second tap, without options for network boot."""
        command = [*self.programs.argv("dnsmasq"), "--keep-in-foreground", "--log-facility=-", "--port=0"]
        command += ["--conf-file=/dev/null", "--pid-file", "--leasefile-ro", "--dhcp-authoritative"]
        command += [f"--interface={TAPS[1]}", "--except-interface=lo", "--bind-interfaces"]
        # A process that gives up root forgets that it is to die with us.
        command += [f"--dhcp-range={FIRST},{LAST}", "--user=root", "--group=root"]
        return watch("other", command, segment, self.folder)

    def boot(self, segment: Segment, *argv: str) -> AbstractContextManager[Watched]:
        """A machine on the network, without a disk; ``argv`` has the firmware, and more of its network."""
        command = [*self.programs.qemu, *self.accelerator.argv, "-machine", "q35", "-smp", "1"]
        command += ["-m", str(MEMORY), "-nodefaults", "-display", "none", "-vga", "std"]
        command += ["-device", "virtio-rng-pci", "-chardev", "stdio,id=serial,signal=off"]
        command += ["-serial", "chardev:serial"]
        for tap, _ in zip(TAPS, segment.addresses, strict=False):
            command += ["-netdev", f"tap,id={tap},ifname={tap},script=no,downscript=no"]
        command += argv
        return watch("machine", command, segment, self.folder)

    def uefi(self) -> list[str]:
        """UEFI's own firmware and network boot."""
        code = self.programs.file("usr/share/OVMF/OVMF_CODE_4M.fd")
        variables = self.folder / "variables.fd"
        variables.write_bytes(self.programs.file("usr/share/OVMF/OVMF_VARS_4M.fd").read_bytes())
        return [
            *("-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}"),
            *("-drive", f"if=pflash,unit=1,format=raw,file={variables}"),
        ]


@pytest.fixture
def stage(
    assets: Path,
    programs: Programs,
    accelerator: Accelerator,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Stage:
    monkeypatch.setenv(ROOT_VARIABLE, str(root))
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    return Stage(assets=assets, programs=programs, accelerator=accelerator, folder=tmp_path)


def check_maintenance(stage: Stage, segment: Segment, server: Watched, machine: Watched) -> IPv4Address:
    """The machine loads our system and answers; its address."""
    for name in ("vmlinuz", "initramfs"):
        server.wait_for(f"has loaded {name}", stage.seconds(LOAD_TIMEOUT))
    address = IPv4Address(machine.wait_for(MAINTENANCE, stage.seconds(BOOT_TIMEOUT)))
    assert FIRST <= address <= LAST
    eventually("its API answers", lambda: check_api(segment, address), seconds=stage.seconds(API_TIMEOUT))
    return address


def check_api(segment: Segment, address: IPv4Address) -> None:
    assert segment.reaches(address, API_PORT), f"nothing listens on {address}:{API_PORT}"


def test_bios_gets_address_and_config_from_us(stage: Stage) -> None:
    configs = stage.folder / "configs"
    configs.mkdir()
    file = configs / f"{MAC.replace(':', '-')}.yaml"
    file.write_text(CONFIG)
    # The card's own program is an iPXE already: it is not given another one, but the script.
    card = ("-device", f"virtio-net-pci,netdev=tap0,mac={MAC},bootindex=1")
    argv = ("--mode", "full", "--range", f"{FIRST},{LAST}", "--configs", str(configs))
    with make_segment(OURS) as segment, stage.serve(segment, *argv) as server:
        server.wait_for(f"web server: {URL}", SERVER_TIMEOUT)
        with stage.boot(segment, *card) as machine:
            assert server.wait_for(f"{MAC}: has address (.*)", stage.seconds(LOAD_TIMEOUT))
            address = check_maintenance(stage, segment, server, machine)
            server.wait_for(rf"{address}: is mac={MAC} uuid=", SERVER_TIMEOUT)
            server.wait_for(f"{address}: has loaded {file.name}", SERVER_TIMEOUT)


def test_uefi_gets_address_from_another_server(stage: Stage) -> None:
    # The hub joins the two servers' taps with the machine's card. Without a program on the card the firmware
    # drives it, and boots from the network by itself.
    hub = [f"hubport,id=port{index},hubid=0,netdev={tap}" for index, tap in enumerate(TAPS)]
    argv = [word for port in (*hub, "hubport,id=port,hubid=0") for word in ("-netdev", port)]
    argv += ["-device", f"virtio-net-pci,netdev=port,mac={MAC},bootindex=1,romfile="]
    with (
        make_segment(OURS, OTHERS) as segment,
        stage.serve_addresses(segment),
        stage.serve(segment) as server,
    ):
        server.wait_for(f"web server: {URL}", SERVER_TIMEOUT)
        with stage.boot(segment, *stage.uefi(), *argv) as machine:
            server.wait_for("has loaded snponly.efi", stage.seconds(LOAD_TIMEOUT))
            check_maintenance(stage, segment, server, machine)
