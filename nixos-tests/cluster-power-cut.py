"""The power of each machine is cut in the upgrade of its cluster; the same command goes on with it later."""

import re

from driver.clusters import MEMBERS, Members, diagnosed_on_failure, start_cluster
from driver.fleet import Outcome, Upgrade
from driver.machine import Machine
from driver.scenarios import INSTALLED_VERSION, UPGRADE_TIMEOUT, check_diagnostic
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "images", "discovery", "base-cluster")
NODES = MEMBERS
COMMAND_TIMEOUT = 3 * UPGRADE_TIMEOUT  # seconds
OLD, NEW = INSTALLED_VERSION, "v1.15.3 in B"
VERDICT = r"v1\.15\.3 in slot B is the default from now on"
"""On a machine's console, when that is on its disk."""
CUT_SHORT = r"v1\.15\.3 in slot B ended before its self-check was done: an unknown reset or power cut"
"""Why the release is reverted whose trial has ended with the power."""


def test(world: World) -> None:
    with diagnosed_on_failure(world):
        run(world)


def run(world: World) -> None:
    members = start_cluster(world)
    one, two, three = members.machines
    assert members.read_versions() == [OLD] * 3
    image = members.releases.make("v1.15.3")
    with members.observed():
        world.section("right after the verdict: the command goes on once the machine is back")
        upgrade = begin(members, image, cut=two)
        upgrade.wait_for_console_text(one, VERDICT)
        cut_power(one)

        world.section("while a slot is written: the command ends")
        upgrade.wait_for(make_report(two, "installing: writing slot B"))
        cut_power(two)
        outcome = upgrade.finish()
        check_outcome(members, outcome, ["done", "failed", "not started"])
        assert make_report(two, "installing: reading slot B back") not in outcome.output, "it was written"
        assert members.read_versions() == [NEW, OLD, OLD]
        assert "0x40" not in two.talosctl("get", "metakeys").stdout, "what was cut short is staged"

        world.section("on trial: the command ends")
        upgrade = begin(members, image, cut=three)
        upgrade.wait_for(make_report(three, "on trial"))
        cut_power(three)
        outcome = upgrade.finish()
        check_outcome(members, outcome, ["runs it already", "done", "failed"])
        assert re.search(rf"v1\.15\.3 was reverted, .* runs: {CUT_SHORT}", outcome.reason), outcome.reason
        assert members.read_versions() == [NEW, NEW, OLD]
        check_diagnostic(three, CUT_SHORT)

        world.section("nothing is cut")
        outcome = members.fleet.upgrade(image, seconds=COMMAND_TIMEOUT)
        check_outcome(members, outcome, ["runs it already", "runs it already", "done"])
        assert members.read_versions() == [NEW] * 3


def begin(members: Members, image: str, *, cut: Machine) -> Upgrade:
    """Begin to upgrade all of them, by a way that does not lead over the machine that is to be cut.

    QEMU's user network keeps a connection to a machine without power open, and with it a call.
    """
    return members.fleet.without(cut).begin_upgrade(image, seconds=COMMAND_TIMEOUT)


def make_report(machine: Machine, step: str) -> str:
    """How the command reports a machine's step."""
    return f"\n{machine.node.address}: {step}"


def cut_power(machine: Machine) -> None:
    """Cut a machine's power and switch it on again."""
    machine.crash()
    machine.start()


def check_outcome(members: Members, outcome: Outcome, results: list[str]) -> None:
    """Assert what became of each machine, a success unless one has failed; the cluster is whole then."""
    members.world.show(outcome.output)
    assert outcome.results() == results, outcome.reason
    assert outcome.code == ("failed" in results), outcome.reason
    members.wait_until_healthy()
