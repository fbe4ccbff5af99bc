"""One machine on a network of its own, with a DHCP server: its kernel is handed over, it has no config."""

import re
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from driver.accelerator import Accelerator
from driver.process import run
from driver.programs import Programs
from tests.harness.cluster import REPOSITORY
from tests.netboot.segment import TAPS, Segment

OURS = "10.78.0.1/24"
BOOT_TIMEOUT = 300  # seconds
"""From power on to maintenance mode."""
MAINTENANCE = r"apply-config --insecure --nodes (\d+\.\d+\.\d+\.\d+) "
"""What the console shows then."""


def dhcp(programs: Programs, *options: str) -> list[str]:
    """The server, with more of its options."""
    return [
        *programs.argv("dnsmasq"),
        *("--keep-in-foreground", "--log-facility=-", "--port=0", "--conf-file=/dev/null", "--pid-file"),
        *("--leasefile-ro", "--dhcp-authoritative", f"--interface={TAPS[0]}", "--except-interface=lo"),
        *("--bind-interfaces", "--user=root", "--group=root"),
        *("--dhcp-range=10.78.0.50,10.78.0.90", *options),
    ]


def machine(programs: Programs, accelerator: Accelerator, *more: str, memory: int = 1536) -> list[str]:
    """A machine with ``memory`` in MiB, and with what else it has."""
    return [
        *(*programs.qemu, *accelerator.argv, "-machine", "q35", "-smp", "1", "-m", str(memory)),
        *("-nodefaults", "-display", "none", "-device", "virtio-rng-pci"),
        *("-chardev", "stdio,id=serial,signal=off", "-serial", "chardev:serial"),
        *("-netdev", f"tap,id=net,ifname={TAPS[0]},script=no,downscript=no"),
        *("-device", "virtio-net-pci,netdev=net,mac=52:54:00:12:00:01,romfile="),
        *more,
    ]


def kernel(assets: Path, accelerator: Accelerator, initramfs: Path | None = None) -> list[str]:
    """Hand over what a boot server would send; ``initramfs`` instead of that."""
    found = re.search(
        r"^kernel vmlinuz initrd=\S+ (.*?) \$\{", (assets / "boot.ipxe").read_text(), re.MULTILINE
    )
    assert found, "boot.ipxe has no line with the kernel's arguments"
    return [
        *("-kernel", str(assets / "vmlinuz"), "-initrd", str(initramfs or assets / "initramfs")),
        *("-append", " ".join([found[1], *accelerator.arguments])),
    ]


def call_machine(
    segment: Segment, address: IPv4Address | IPv6Address, *argv: str, talosconfig: Path | None = None
) -> str:
    """Call a machine that has no config, or one whose client's file is given."""
    who = ["--talosconfig", str(talosconfig), "-e", str(address)] if talosconfig else ["--insecure"]
    command = [str(REPOSITORY / "build/bin/talosctl"), *argv, "-n", str(address), *who]
    with segment.inside():
        done = run(command, check=False)
    assert done.code == 0, done.stderr
    return done.stdout
