"""What several tests do with a machine: install it, and see that it runs from its disk."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from driver.client import Document, at
from driver.configs import Cluster
from driver.machine import Machine
from driver.node import Disk, Node
from driver.releases import Releases
from driver.world import World

VOLUMES = ("META", "STATE", "EPHEMERAL")
DISK = "/dev/vda"
INSTALL_SECONDS = 300


def apply_config(machine: Machine, cluster: Cluster, *patches: str) -> None:
    """Give a machine in maintenance mode a config that installs it; from then on it is the cluster's."""
    config = cluster.config(*patches, disk=DISK)
    machine.talosctl("apply-config", "--file", str(config), insecure=True)
    machine.client.talosconfig = cluster.talosconfig


def install(machine: Machine, cluster: Cluster, *patches: str) -> None:
    """From maintenance mode until the machine restarts from its disk."""
    machine.wait_for_api(insecure=True)
    apply_config(machine, cluster, *patches)
    machine.wait_for_reset(INSTALL_SECONDS)


def wait_for_installed(machine: Machine) -> None:
    """The machine answers its cluster, and its volumes are there."""
    machine.wait_for_api(seconds=INSTALL_SECONDS)
    machine.wait_until("the volumes are ready", lambda: check_volumes(machine), INSTALL_SECONDS)


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


UPGRADED = Node(hands_over_kernel=True, memory=2048, disks={"system": Disk(size="8G")})
"""A machine that :func:`install_release` installs."""
UPGRADE_SECONDS = 900


def install_release(
    world: World,
    machine: Machine,
    prepare: Callable[[], object] = lambda: None,
    extensions: Path | None = None,
) -> Releases:
    """Install a system that accepts releases of a key, and boot it by GRUB from its disk.

    ``prepare`` runs between the two, while the machine is off. ``extensions`` are in the system.
    """
    releases, cluster = world.releases(), world.cluster()
    machine.initramfs = releases.initramfs(extensions=extensions)
    machine.start()
    machine.wait_for_api(insecure=True)
    apply_config(machine, cluster, releases.patch)
    machine.wait_for_console_text("sequence install: done|reboot now", INSTALL_SECONDS)
    machine.wait_for_reset()
    machine.crash()
    prepare()
    machine.start(node=replace(machine.node, boot="bios", hands_over_kernel=False))
    wait_for_installed(machine)
    return releases


def read_version(machine: Machine) -> str:
    """The version that runs, and its slot."""
    slot = machine.talosctl("read", "/proc/cmdline").stdout.split("/")[1]
    lines = machine.talosctl("version").stdout.partition("Server")[2].splitlines()
    tag = next(line for line in lines if "Tag" in line).split()[-1]
    return f"{tag} in {slot}"


def read_diagnostics(machine: Machine) -> str:
    """What the machine finds notable about its upgrades."""
    return machine.talosctl("get", "diagnostics", "-o", "yaml").stdout
