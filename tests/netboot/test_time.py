"""A machine whose clock was lost gets the time: from the server that DHCP names, served by a real chrony."""

import json
import re
import subprocess
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from driver.accelerator import Accelerator
from driver.programs import Programs
from tests.harness.cluster import REPOSITORY, eventually
from tests.harness.peers import find_peer
from tests.netboot.segment import TAPS, Segment, make_segment
from tests.netboot.watched import watch

pytestmark = [
    pytest.mark.root,
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]

OURS, SERVER = "10.78.0.1/24", "10.78.0.1"
BOOT_SECONDS, SYNC_SECONDS = 150, 60
MAINTENANCE = r"apply-config --insecure --nodes (\d+\.\d+\.\d+\.\d+) "
CHRONY = """\
local stratum 1
allow all
cmdport 0
bindaddress {server}
pidfile {folder}/chrony.pid
"""


def dhcp(programs: Programs) -> list[str]:
    return [
        *programs.argv("dnsmasq"),
        *("--keep-in-foreground", "--log-facility=-", "--port=0", "--conf-file=/dev/null", "--pid-file"),
        *("--leasefile-ro", "--dhcp-authoritative", f"--interface={TAPS[0]}", "--except-interface=lo"),
        *("--bind-interfaces", "--user=root", "--group=root"),
        *("--dhcp-range=10.78.0.50,10.78.0.90", f"--dhcp-option=option:ntp-server,{SERVER}"),
    ]


def chrony(folder: Path) -> list[str]:
    config = folder / "chrony.conf"
    config.write_text(CHRONY.format(server=SERVER, folder=folder))
    # -x: the machine's own clock is shown and never set.
    return [*find_peer("chronyd"), "-x", "-d", "-u", "root", "-f", str(config)]


def machine(assets: Path, programs: Programs, accelerator: Accelerator) -> list[str]:
    found = re.search(
        r"^kernel vmlinuz initrd=\S+ (.*?) \$\{", (assets / "boot.ipxe").read_text(), re.MULTILINE
    )
    assert found, "boot.ipxe has no line with the kernel's arguments"
    return [
        *(*programs.qemu, *accelerator.argv, "-machine", "q35", "-smp", "2", "-m", "1536", "-nodefaults"),
        *("-display", "none", "-device", "virtio-rng-pci", "-rtc", "base=1970-01-02T00:00:00,clock=vm"),
        *("-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial"),
        *("-netdev", f"tap,id=net,ifname={TAPS[0]},script=no,downscript=no"),
        *("-device", "virtio-net-pci,netdev=net,mac=52:54:00:12:00:01,romfile="),
        *("-kernel", str(assets / "vmlinuz"), "-initrd", str(assets / "initramfs")),
        *("-append", " ".join([found[1], *accelerator.arguments])),
    ]


def ask(segment: Segment, address: IPv4Address, *argv: str) -> str:
    command = [str(REPOSITORY / "build/bin/talosctl"), *argv, "-n", str(address), "--insecure"]
    with segment.inside():
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def get(segment: Segment, address: IPv4Address, kind: str) -> Any:
    return json.loads(ask(segment, address, "get", kind, "-o", "json"))["spec"]


def test_a_clock_of_1970_is_set_by_the_server_of_the_lease(
    assets: Path, programs: Programs, accelerator: Accelerator, tmp_path: Path
) -> None:
    with (
        make_segment(OURS) as segment,
        watch("dnsmasq", dhcp(programs), segment, tmp_path),
        watch("chrony", chrony(tmp_path), segment, tmp_path),
        watch("machine", machine(assets, programs, accelerator), segment, tmp_path) as booted,
    ):
        address = IPv4Address(booted.wait_for(MAINTENANCE, BOOT_SECONDS * accelerator.factor))
        check_clock(segment, address, SYNC_SECONDS * accelerator.factor)


def check_clock(segment: Segment, address: IPv4Address, seconds: float) -> None:
    def synced() -> None:
        status = get(segment, address, "timestatus")
        assert status["synced"], (status, ask(segment, address, "logs", "timed"))

    eventually("the clock is synchronized", synced, seconds=seconds)
    # From 1970 to now is a step that begins a new epoch.
    status = get(segment, address, "timestatus")
    assert status["epoch"] == 1, (status, ask(segment, address, "logs", "timed"))
    assert get(segment, address, "timeservers")["timeServers"] == [SERVER]
    adjtime = get(segment, address, "adjtimestatus")
    assert adjtime["syncStatus"], adjtime
