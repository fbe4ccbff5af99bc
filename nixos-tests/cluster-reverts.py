"""A release that fails is given to a cluster: the first machine goes back, the others stay as they are."""

import re

from driver.clusters import MEMBERS, Members, diagnosed_on_failure, start_cluster
from driver.machine import Machine
from driver.process import end_process, start_process
from driver.scenarios import INSTALLED_VERSION, UPGRADE_TIMEOUT, check_crash, check_diagnostic, read_version
from driver.world import World

ASSETS = (
    "kernel",
    "initramfs",
    "faulty-initramfs",
    "cmdline",
    "release-tool",
    "images",
    "discovery",
    "base-cluster",
)
NODES = MEMBERS
TRIAL_TIMEOUT = 60
"""Seconds for the self-check of these releases."""
SILENT = rf"self-check: after {TRIAL_TIMEOUT} s: .*service apid is not healthy"
PANIC = r"v1\.15\.2 in slot B did not start: kernel panic: Attempted to kill init! exitcode=0x00000700"
"""Why each of them is reverted, as a pattern."""


def test(world: World) -> None:
    with diagnosed_on_failure(world):
        run(world)


def run(world: World) -> None:
    members = start_cluster(world)
    first, *others = members.machines
    assert members.read_versions() == [INSTALLED_VERSION] * 3
    boots = [machine.boot_id() for machine in others]
    with members.observed():
        world.section("an apid that never answers")
        check_revert(members, "v1.15.1", "", SILENT)

        world.section("a PID 1 that ends, so that the kernel panics")
        with first.console.expect("Kernel panic"):
            check_revert(members, "v1.15.2", "fault=exits", PANIC)
    for machine, boot in zip(others, boots, strict=True):
        assert machine.boot_id() == boot, f"{machine.name} has rebooted"
        assert read_version(machine) == INSTALLED_VERSION
        assert "0x40" not in machine.talosctl("get", "metakeys").stdout, f"{machine.name} was written to"


def check_revert(members: Members, version: str, arguments: str, reason: str) -> None:
    """Assert that one command for all ends with the first machine, which is back and reports why."""
    image = members.releases.make(
        version, asset="faulty-initramfs", arguments=f"talos.trial.limit={TRIAL_TIMEOUT} {arguments}"
    )
    outcome = members.fleet.upgrade(image, seconds=UPGRADE_TIMEOUT)
    members.world.show(outcome.output)
    first = members.machines[0]
    assert outcome.code, "a reverted upgrade is taken for a success"
    assert outcome.results() == ["failed", "not started", "not started"], outcome.rows
    assert re.search(f"{version} was reverted, .* runs: {reason}", outcome.reason), outcome.reason
    assert read_version(first) == INSTALLED_VERSION
    check_diagnostic(first, reason)
    check_event(first, reason)
    check_crash(first, reason)
    members.wait_until_healthy()


def check_event(machine: Machine, reason: str) -> None:
    """Assert that the events of this boot have the reason."""
    path = machine.folder / "events"
    with path.open("wb") as stdout:
        process = start_process(
            machine.client.argv(["events", "--tail", "-1"], insecure=False),
            log=machine.folder / "events.log",
            stdout=stdout.fileno(),
            env=machine.client.environment,
        )

    def check() -> None:
        text = path.read_text(errors="replace")
        assert re.search(f"reverted: {reason}", text), text

    try:
        machine.wait_until(f"an event says {reason}", check)
    finally:
        end_process(process)
