"""One command upgrades all machines of a cluster with Kubernetes while a service is called; one goes back."""

from driver.clusters import diagnosed_on_failure
from driver.kubernetes import FORM_TIMEOUT, MACHINES, start_kubernetes
from driver.scenarios import INSTALLED_VERSION
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "images-all", "discovery", "base-kubernetes")
NODES = MACHINES
OLD, NEW = INSTALLED_VERSION, "v1.15.3 in B"


def test(world: World) -> None:
    with diagnosed_on_failure(world):
        run(world)


def run(world: World) -> None:
    kubernetes = start_kubernetes(world)
    machines = kubernetes.machines
    assert kubernetes.read_versions() == [OLD] * len(machines)
    image = kubernetes.members.releases.make("v1.15.3")
    with kubernetes.observed():
        world.section("one command for all")
        outcome = kubernetes.fleet.upgrade(image, seconds=len(machines) * FORM_TIMEOUT)
        world.show(outcome.output)
        assert outcome.code == 0, outcome.reason
        assert outcome.results() == ["done"] * len(machines), outcome.rows
        assert kubernetes.read_versions() == [NEW] * len(machines)
        kubernetes.wait_until_ready()

        world.section("a worker goes back")
        worker = machines[-1]
        worker.wait_for_reset()  # the upgrade's
        worker.talosctl("rollback")
        worker.wait_for_reset(FORM_TIMEOUT)
        worker.wait_for_console_text("in slot A is the default from now on", FORM_TIMEOUT)
    assert kubernetes.read_versions() == [NEW] * (len(machines) - 1) + [OLD]
