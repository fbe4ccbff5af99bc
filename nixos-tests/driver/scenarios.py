"""What several tests do with a machine: install it, and see that it runs from its disk."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from driver.client import Document, at
from driver.configs import NO_KUBERNETES, Cluster
from driver.machine import Machine
from driver.node import Boot, Disk, Node
from driver.releases import Releases
from driver.saved import restore
from driver.world import World

VOLUMES = ("META", "STATE", "EPHEMERAL")
DISK = "/dev/vda"
LOG = "/var/log/machined.log"
INSTALL_TIMEOUT = 300  # seconds


def apply_config(machine: Machine, cluster: Cluster, *patches: str) -> None:
    """Give a machine in maintenance mode a config that installs it; from then on it is the cluster's.

    It has nothing of Kubernetes, whose images no test serves.
    """
    _send_config(machine, cluster, cluster.config(NO_KUBERNETES, *patches, disk=DISK))


def _send_config(machine: Machine, cluster: Cluster, config: Path) -> None:
    machine.talosctl("apply-config", "--file", str(config), insecure=True)
    machine.client.talosconfig = cluster.talosconfig


def configure_if_needed(machine: Machine, cluster: Cluster) -> None:
    """Give a machine a config, unless it has one on its disk: the clients that it accepts show that."""
    machine.client.talosconfig = cluster.talosconfig

    def is_configured() -> bool:
        if machine.client.run("version", check=False).code == 0:
            return True
        machine.client.run("version", insecure=True)
        return False

    machine.wait_for_port()
    if not machine.wait_until("it answers its cluster, or everybody", is_configured):
        apply_config(machine, cluster)


def install(machine: Machine, cluster: Cluster, *patches: str) -> None:
    """From maintenance mode until the machine restarts from its disk."""
    machine.wait_for_api(insecure=True)
    apply_config(machine, cluster, *patches)
    machine.wait_for_reset(INSTALL_TIMEOUT)


def wait_for_installed(machine: Machine) -> None:
    """The machine answers its cluster, and its volumes are there."""
    machine.wait_for_api(seconds=INSTALL_TIMEOUT)
    machine.wait_until("the volumes are ready", lambda: check_volumes(machine), INSTALL_TIMEOUT)


def read_log(machine: Machine) -> str:
    """The first line of the log that is kept on EPHEMERAL: its time is that of the first boot with it."""

    def read() -> str:
        lines = machine.client.run("read", LOG).stdout.splitlines()
        assert lines, f"{LOG} is empty"
        return lines[0]

    return machine.wait_until("the logs are on the disk", read)


def volumes(machine: Machine) -> dict[str, Document]:
    """The machine's volumes by their names."""
    found: dict[str, Document] = {}
    for document in machine.get("volumestatus"):
        found[str(at(document, "metadata.id"))] = document
    return found


def check_volumes(machine: Machine) -> None:
    """Assert that META, STATE and EPHEMERAL are ready."""
    found = volumes(machine)
    phases = {name: at(found.get(name, {}), "spec.phase") for name in VOLUMES}
    assert all(phase == "ready" for phase in phases.values()), f"the volumes are {phases}"


def gibibytes(machine: Machine, volume: str) -> float:
    """A volume's size."""
    size = at(volumes(machine)[volume], "spec.size")
    return float(str(size)) / (1 << 30) if size else 0


UPGRADED = Node(hands_over_kernel=True, watchdog=True, memory=2048, disks={"system": Disk(size="8G")})
"""A machine that :func:`start_installed` starts."""
INSTALLED = "base-installed"
"""The asset with one that was installed."""
INSTALLED_VERSION = "v1.15.0-alpha.0 in A"
"""What :func:`read_version` returns of a machine that was installed and not upgraded."""
UPGRADE_TIMEOUT = 900  # seconds
CRASHES = "/var/log/crash"
VARIABLES = "/sys/firmware/efi/efivars"


def fix_kernel(machine: Machine) -> tuple[str, str]:
    """Patches for kernel arguments: the clock's rate, and a fixed place.

    Else the kernel would lie where a failed boot has left its log, in one boot of 40 with so little memory.
    """
    return add_kernel_arguments(("nokaslr", *machine.accelerator.arguments))


def add_kernel_arguments(arguments: Sequence[str]) -> tuple[str, str]:
    """Patches with which a machine gives them to what it installs."""
    install = {"machine": {"install": {"disk": DISK, "extraKernelArgs": [*arguments]}}}
    return "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\n$patch: delete\n", json.dumps(install)


def install_release(machine: Machine, cluster: Cluster, config: Path) -> None:
    """Install the system of the machine's initramfs; the machine is off then, and has this config."""
    machine.start()
    machine.wait_for_api(insecure=True)
    _send_config(machine, cluster, config)
    machine.wait_for_console_text("sequence install: done|reboot now", INSTALL_TIMEOUT)
    machine.wait_for_reset()
    machine.crash()


def install_new(machine: Machine, cluster: Cluster, releases: Releases) -> None:
    """Install a system that accepts the releases; the machine is off then."""
    machine.initramfs = releases.initramfs()
    install_release(machine, cluster, cluster.config(NO_KUBERNETES, *fix_kernel(machine), disk=DISK))


def start_installed(
    world: World,
    machine: Machine,
    prepare: Callable[[], object] = lambda: None,
    *,
    firmware: Boot = "bios",
) -> Releases:
    """Boot an installed system by GRUB from its disk; it accepts the releases that are returned.

    It is the saved one, if the test's assets name it. ``prepare`` runs before, while the machine is off.
    """
    is_restored = restore(world, INSTALLED)
    releases, cluster = world.releases(), world.cluster()
    if not is_restored:
        install_new(machine, cluster, releases)
    prepare()
    machine.client.talosconfig = cluster.talosconfig
    machine.start(node=replace(machine.node, boot=firmware, hands_over_kernel=False))
    wait_for_installed(machine)
    set_mirrors(machine, releases)
    return releases


def patch(machine: Machine, *texts: str) -> None:
    """Change the config without a restart."""
    words = [word for text in texts for word in ("--patch", text)]
    machine.talosctl("patch", "machineconfig", "--mode", "no-reboot", *words)


def make_removal(kind: str, name: str) -> str:
    """A patch that takes a document out of the config."""
    return f"apiVersion: v1alpha1\nkind: {kind}\nname: {name}\n$patch: delete\n"


def set_mirrors(machine: Machine, releases: Releases) -> None:
    """Have a machine pull images from this test, which has another port than the one that installed it."""
    patch(machine, releases.patch)


def check_revert(machine: Machine, image: str, reason: str) -> str:
    """Assert that an upgrade fails, and the old version is back and logs why; the failed boot's kernel log.

    ``reason`` is a pattern.
    """
    before, version = read_version(machine), image.rpartition(":")[2]
    seconds = machine.timeout_scale.seconds(UPGRADE_TIMEOUT)
    result = machine.client.run("upgrade", "--image", image, check=False, seconds=seconds)
    assert result.code, f"talosctl takes a reverted upgrade for a success: {result.stderr}"
    verdict = result.stderr.splitlines()[-1]
    assert re.search(reason, verdict), result.stderr
    assert version in verdict
    assert read_version(machine) == before
    check_diagnostic(machine, reason)
    machine.wait_for_console_text(f"the upgrade to {version} was reverted")
    wait_for_installed(machine)
    return check_crash(machine, reason)


def check_crash(machine: Machine, reason: str) -> str:
    """Assert that the logs of the last failed boot are kept with the reason; the kernel's."""

    def find() -> str:
        lines = machine.client.run("list", CRASHES).stdout.splitlines()
        names = [word for line in lines for word in line.split() if word.endswith("Z")]
        assert names, lines
        found = machine.client.run("read", f"{CRASHES}/{max(names)}/reason").stdout
        assert re.search(reason, found), found
        return max(names)

    folder = machine.wait_until("the logs of the failed boot are kept", find)
    return machine.client.run("read", f"{CRASHES}/{folder}/kernel.log").stdout


def read_version(machine: Machine) -> str:
    """The version that runs, and its slot."""
    slot = machine.talosctl("read", "/proc/cmdline").stdout.split("/")[1]
    return f"{_read_tag(machine)} in {slot}"


def check_refused(machine: Machine, *argv: str, reason: str) -> None:
    """Assert that a command fails with this reason."""
    result = machine.client.run(*argv, check=False)
    assert result.code, f"{argv} was not refused"
    assert reason in result.stderr, result.stderr
    assert "Traceback" not in result.stderr


def read_system(machine: Machine) -> str:
    """The version that runs, and systemd-boot's entry that it was started by."""
    (entry,) = machine.get("bootedentry")
    return f"{_read_tag(machine)} by {at(entry, 'spec.bootedEntry')}"


def _read_tag(machine: Machine) -> str:
    lines = machine.talosctl("version").stdout.partition("Server")[2].splitlines()
    return next(line for line in lines if "Tag" in line).split()[-1]


def check_diagnostic(machine: Machine, reason: str) -> None:
    """Assert that the machine finds this notable; ``reason`` is a pattern."""

    def check() -> None:
        found = machine.client.run("get", "diagnostics", "-o", "yaml").stdout
        assert re.search(reason, found), found

    machine.wait_until(f"a diagnostic says {reason}", check)


def read_boot_entries(machine: Machine) -> Sequence[str]:
    """The names of the boot entries of a machine's UEFI, and what it starts next."""
    names = machine.talosctl("list", VARIABLES).stdout
    return re.findall(r"\bBoot(?:Next|[0-9A-F]{4})(?=-)", names)
