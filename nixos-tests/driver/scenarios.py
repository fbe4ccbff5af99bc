"""What several tests do with a machine: install it, and see that it runs from its disk."""

from driver.client import Document, at
from driver.configs import Cluster
from driver.machine import Machine

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
