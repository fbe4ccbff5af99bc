"""Three machines with empty disks boot from the boot server, install by their configs, and form a cluster."""

from collections.abc import Sequence
from dataclasses import replace

from driver.clusters import (
    ADDRESSES,
    FORM_TIMEOUT,
    MEMBERS,
    Members,
    diagnosed_on_failure,
    find_mac,
    make_members,
)
from driver.scenarios import read_version, wait_for_installed
from driver.world import World

ASSETS = ("netboot", "pxe", "release-tool", "images", "discovery")
NODES = {name: replace(node, netboot=True) for name, node in MEMBERS.items()}
INSTALL_TIMEOUT = 1200
"""Seconds for firmware, iPXE, a boot and an installation, of three machines at once."""
ONCE_EACH = ("runs its own script", "has loaded initramfs")
"""What the server shows of a machine that boots from the network."""


def test(world: World) -> None:
    with diagnosed_on_failure(world):
        run(world)


def run(world: World) -> None:
    members, server = make_members(world), world.boot_server
    server.start({find_mac(name): members.make_config(name).read_text() for name in ADDRESSES})
    world.hub.restart(f"bootfile={server.script}")

    world.section("from the network to installed disks")
    for machine in members.machines:
        machine.start()
    for machine in members.machines:
        machine.wait_for_reset(INSTALL_TIMEOUT)
    check_served(server.lines())

    world.section("from their disks to one cluster")
    for machine in members.machines:
        machine.wait_for_port(FORM_TIMEOUT)
    members.bootstrap()
    for machine in members.machines:
        wait_for_installed(machine)
        assert read_version(machine).endswith(" in A")
    check_etcd(members)
    check_served(server.lines())


def check_served(lines: Sequence[str]) -> None:
    """Assert that each machine was given its own config, and booted from the network once."""
    text = "\n".join(lines)
    for name in ADDRESSES:
        mac = find_mac(name)
        assert sum(f": is mac={mac}" in line for line in lines) == 1, text
        assert sum(line.endswith(f": has loaded {mac}.yaml") for line in lines) == 1, text
    for step in ONCE_EACH:
        assert sum(f": {step}" in line for line in lines) == len(ADDRESSES), text


def check_etcd(members: Members) -> None:
    """Assert that what is written through each member is read through all."""
    keys = members.open_keys()
    for name, member in keys.items():
        member.put("written-by", name)
        for other in keys.values():
            assert other.read("written-by")[0] == name
