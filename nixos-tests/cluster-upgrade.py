"""One command upgrades a cluster of three while clients write to etcd; then one machine goes back."""

from driver.clusters import FORM_TIMEOUT, MEMBERS, diagnosed_on_failure, start_cluster
from driver.scenarios import INSTALLED_VERSION, UPGRADE_TIMEOUT
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "images", "discovery", "base-cluster")
NODES = MEMBERS
OLD, NEW = INSTALLED_VERSION, "v1.15.3 in B"


def test(world: World) -> None:
    with diagnosed_on_failure(world):
        run(world)


def run(world: World) -> None:
    members = start_cluster(world)
    assert members.read_versions() == [OLD] * 3
    image = members.releases.make("v1.15.3")
    with members.observed():
        world.section("one command for all")
        outcome = members.fleet.upgrade(image, seconds=3 * UPGRADE_TIMEOUT)
        world.show(outcome.output)
        assert outcome.code == 0, outcome.reason
        assert outcome.results() == ["done"] * 3, outcome.rows
        assert members.read_versions() == [NEW] * 3

        world.section("one goes back")
        last = members.machines[-1]
        last.wait_for_reset()  # the upgrade's
        last.talosctl("rollback")
        last.wait_for_reset()
        last.wait_for_console_text("in slot A is the default from now on", FORM_TIMEOUT)
    assert members.read_versions() == [NEW, NEW, OLD]
