"""A machine loses its disk, another its network for five minutes, a third its power; each heals."""

from dataclasses import replace

from driver.clock import CLOCK
from driver.clusters import (
    FORM_TIMEOUT,
    MEMBERS,
    Members,
    diagnosed_on_failure,
    make_address_argument,
    read_members,
    start_cluster,
)
from driver.machine import Machine
from driver.scenarios import INSTALLED_VERSION, install_release
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "images", "discovery", "base-cluster")
NODES = MEMBERS
OUTAGE = 300.0
"""Seconds without a network: longer than an election, a lease or a session of any client."""


def test(world: World) -> None:
    with diagnosed_on_failure(world):
        run(world)


def run(world: World) -> None:
    members = start_cluster(world)
    one, two, three = members.machines
    with members.observed():
        world.section("a disk is lost, and an empty one installed by the config")
        former = read_member_id(one)
        replace_disk(members, one)
        members.wait_until_healthy()
        assert read_member_id(one) != former, "the member's id is used again, and its data are lost"

        world.section("the network is lost for five minutes")
        boot = two.boot_id()
        two.block()
        began = CLOCK.now()
        three.wait_until(
            "the outage has lasted long enough", lambda: check_elapsed(began), 2 * OUTAGE, pause=5
        )
        two.unblock()
        members.wait_until_healthy()
        assert two.boot_id() == boot, "it has rebooted"

        world.section("the power is lost")
        three.crash()
        three.start()
        members.wait_until_healthy()
    assert members.read_versions() == [INSTALLED_VERSION] * 3


def replace_disk(members: Members, machine: Machine) -> None:
    """Cut a machine's power, and have it install itself on an empty disk."""
    machine.crash()
    machine.replace_disk("system")
    config = members.make_config(machine.name)
    machine.initramfs = members.releases.initramfs()
    machine.node = replace(
        machine.node, boot="pvh", hands_over_kernel=True, arguments=(make_address_argument(machine.name),)
    )
    install_release(machine, members.cluster, config)
    machine.start(node=MEMBERS[machine.name])
    machine.wait_for_api(seconds=FORM_TIMEOUT)


def read_member_id(machine: Machine) -> str:
    """The id of a machine's member of etcd, as the members list it."""
    rows = [row for row in read_members(machine) if machine.name in row]
    [found] = [word for row in rows for word in row if len(word) == 16]
    return found


def check_elapsed(began: float) -> None:
    elapsed = CLOCK.now() - began
    assert elapsed >= OUTAGE, f"{elapsed:.0f} of {OUTAGE:.0f} s"
