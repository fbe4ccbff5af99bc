"""Machines that are installed already: one test saves them, and others begin with layers over their disks.

With them go the cluster's secrets and the key of the releases that they accept. Certificates of clients are
made anew by each test: those of the machines' API live for a day and are issued when a machine starts.
"""

from pathlib import Path

from driver.configs import SECRETS
from driver.releases import KEY
from driver.world import World

SHARED = (f"cluster-vm/{SECRETS}", f"releases/{KEY}", f"releases/{Path(KEY).with_suffix('.pub')}")
"""Files of a test's folder."""
ARGUMENTS = "arguments"
"""The kernel arguments with which the machines were installed: they have the rate of the host's clock."""


def save(world: World) -> None:
    """Keep all machines of this test, which are off, as what the test's derivation makes."""
    folder = world.folder / "saved"
    folder.mkdir()
    for name in SHARED:
        _copy(world.folder / name, folder / name)
    for name, machine in world.items():
        machine.save(folder / name)
    (folder / ARGUMENTS).write_text(_describe(world))
    world.saved = folder


def restore(world: World, asset: str, *, machine: str = "") -> bool:
    """Begin with machines that were saved; False for a test without them, which installs its own.

    All begin with the disks of one ``machine``, if that is named, else each with those of its own name.
    So does one on a host whose clock has another rate: its kernels would take that of the other host.
    """
    if asset not in world.assets.paths:
        return False
    folder = world.assets.path(asset)
    saved, wanted = (folder / ARGUMENTS).read_text(), _describe(world)
    if saved != wanted:
        world.show(f"{asset} is not used: it was installed with {saved!r}, here it would be {wanted!r}")
        return False
    for name in SHARED:
        _copy(folder / name, world.folder / name)
    for name, own in world.items():
        own.restore(folder / (machine or name))
    return True


def _describe(world: World) -> str:
    return " ".join(world.accelerator.arguments)


def _copy(path: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(path.read_bytes())
    copy.chmod(0o600)
