"""A signed ISO under Secure Boot, as a disc and on a stick: keys are enrolled, it starts and installs itself.

The ISO that is not signed is refused then.
"""

import shutil

from driver.client import at
from driver.machine import Machine
from driver.node import Disk, Node
from driver.owner import Owner
from driver.scenarios import INSTALL_TIMEOUT, apply_config, wait_for_installed
from driver.world import World

ASSETS = ("uki", "iso", "sign-iso")
SYSTEM = Disk(size="8G")
NODES = {
    "disc": Node(boot="uefi", secure_boot=True, memory=2048, disks={"system": SYSTEM}, cdrom="iso"),
    "stick": Node(
        boot="uefi",
        secure_boot=True,
        memory=2048,
        disks={"system": SYSTEM, "stick": Disk(size="1M", raw=True)},
    ),
}
"""What is in the drive and on the stick is made below. Firmware tries the disk to be installed to first."""
DENIED = r"BdsDxe: failed to load Boot\d+ .*: Access Denied"


def enroll(node: Machine) -> None:
    """Firmware in setup mode takes the keys that are beside systemd-boot; the machine is off then."""
    node.start()
    node.wait_for_console_text("Enrolling secure boot keys", 240)
    node.wait_for_reset()
    node.crash()


def install(world: World, node: Machine, key: str) -> None:
    """From maintenance mode to the system on the disk."""
    node.start()
    node.wait_for_api(insecure=True, seconds=420)  # an emulated firmware reads and hashes 70 MB
    check_state(node, key, insecure=True)
    apply_config(node, world.cluster(node.name))
    node.wait_for_reset(INSTALL_TIMEOUT)
    wait_for_installed(node)
    check_state(node, key)
    (entry,) = node.get("bootedentry")
    assert at(entry, "spec.bootedEntry") == "talos-a.efi", entry


def check_state(node: Machine, key: str, *, insecure: bool = False) -> None:
    """The system has Secure Boot on, and the key that has signed what was started."""
    (state,) = node.get("securitystate", insecure=insecure)
    names = ("secureBoot", "bootedWithUKI", "ukiSigningKeyFingerprint")
    shown = [at(state, f"spec.{name}") for name in names]
    assert shown == [True, True, key], shown


def test(world: World) -> None:
    disc, stick, owner = world["disc"], world["stick"], Owner(world, "owner")
    owner.make_keys()
    unsigned = disc.cdrom
    signed, key = owner.sign_iso(world.assets.path("uki"))

    world.section("firmware in setup mode takes the keys of the ISO")
    disc.cdrom = signed
    enroll(disc)

    world.section("an ISO that is not signed is refused")
    disc.cdrom = unsigned
    disc.start()
    disc.wait_for_console_text(DENIED, 240)
    disc.crash()

    world.section("the signed one installs itself")
    disc.cdrom = signed
    install(world, disc, key)
    disc.crash()

    world.section("the same, copied to a stick")
    shutil.copyfile(signed, stick.disk("stick"))
    enroll(stick)
    install(world, stick, key)
