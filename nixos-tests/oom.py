"""Storms of programs take all memory: OOMConfig's rules end their group, and nothing beside it."""

import json
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from driver.availability import sampling
from driver.bootstrap import begin_etcd, check_etcd
from driver.client import at, check_tls
from driver.machine import Machine
from driver.process import Result
from driver.scenarios import UPGRADED, patch, start_installed
from driver.world import World

ASSETS = ("kernel", "initramfs", "cmdline", "release-tool", "images", "base-installed")
NODES = {"node": UPGRADED}
READY_TIMEOUT = 600  # seconds
STORM_TIMEOUT = 300.0
"""Seconds from the first program until the storm is over: the memory has to be filled first."""
ANSWER_TIMEOUT = 20.0
"""Seconds for a handshake of an emulated processor that a storm has, too."""
SAMPLE_INTERVAL = 3.0  # seconds
LACK = r"Out of memory: Killed|invoked oom-killer"
"""Single programs are ended by the kernel as well, which does not see what they belong to."""
KEPT = ("system/apid", "system/routerd", "system/runtime", "podruntime/runtime", "podruntime/etcd")
"""Groups whose processes have to go on; the end of PID 1 is a reboot."""

TIME = "apiVersion: v1alpha1\nkind: TimeSyncConfig\nenabled: false\n"
RULES = json.dumps(
    {
        "apiVersion": "v1alpha1",
        "kind": "OOMConfig",
        "triggerExpression": "memory_some_avg10 > 5.0 && d_memory_some_total > 50000.0 && "
        'time_since_trigger > duration("5s")',
    }
)
"""A twentieth of the time some program waits for memory, now and in the last ten seconds."""

GROUPS = "/sys/fs/cgroup"
PODS = f"{GROUPS}/kubepods"
PAYING, STORMY = "kubepods/podpaying", "kubepods/besteffort/podstorm"
MAKE = (
    f"set -e; mkdir -p {GROUPS}/{STORMY} {GROUPS}/{PAYING}; "
    f"echo +memory > {PODS}/cgroup.subtree_control; "
    f"echo +memory > {PODS}/besteffort/cgroup.subtree_control; "
)
"""Groups of pods as the kubelet makes them."""
PAY = MAKE + f"echo $$ > {GROUPS}/{PAYING}/cgroup.procs; exec sleep 86400"
STORM = "echo 1000 > /proc/self/oom_score_adj; while :; do tail /dev/zero & sleep 1; done"
"""Programs that read a line without an end, one more each second."""
STORMS = {"pod": f"{MAKE} echo $$ > {GROUPS}/{STORMY}/cgroup.procs; {STORM}", "debug container": STORM}


def test(world: World) -> None:
    node = world["node"]
    releases = start_installed(world, node)
    releases.offer_archives(world.assets.path("images"))
    [archive] = world.assets.path("images").glob("debug-*.tar")
    patch(node, TIME, RULES)
    node.wait_until("etcd begins", lambda: begin_etcd(node), READY_TIMEOUT)
    node.wait_until("etcd runs", lambda: check_etcd(node), READY_TIMEOUT)
    assert read_locked(node) > 0, "PID 1's programs may be taken from memory"

    with ThreadPoolExecutor() as pool, node.console.expect(LACK):
        try:
            pool.submit(run_script, node, archive, PAY)
            node.wait_until("the neighbour runs", lambda: read_group(node, PAYING), READY_TIMEOUT)
            before, boot = read_kept(node), node.boot_id()
            for name, script in STORMS.items():
                world.section(f"the storm of a {name}")
                known = len(read_victims(node))
                with observed(node):
                    check_ended(node, pool.submit(run_script, node, archive, script))
                node.wait_until("its end is a resource", partial(check_victims, node, known))
                assert node.boot_id() == boot, "it has rebooted"
                node.wait_until("the same processes run", lambda: check_kept(node, before))
                node.wait_until("etcd is healthy", lambda: check_etcd(node))
        finally:
            node.crash()  # so that the commands end


@contextmanager
def observed(node: Machine) -> Generator[None]:
    """Assert that the API answers as long as the context is open."""
    timeout = node.timeout_scale.seconds(ANSWER_TIMEOUT)
    checks = {node.name: partial(check_tls, node.client.port, timeout)}
    with sampling(checks, SAMPLE_INTERVAL) as samples:
        yield
    assert len(samples.down) > 1, samples.down
    assert not samples.largest_outage(), samples.describe()


def run_script(node: Machine, archive: Path, script: str) -> Result:
    """Run a script in a debug container until it ends."""
    seconds = node.timeout_scale.seconds(10 * STORM_TIMEOUT)
    return node.client.run("debug", str(archive), "--args", f"sh,-c,{script}", check=False, seconds=seconds)


def check_ended(node: Machine, storm: Future[Result]) -> None:
    """Assert that the first program of a storm, which takes no memory itself, is killed in time."""
    result = storm.result(node.timeout_scale.seconds(STORM_TIMEOUT))
    assert "container exited with code 137" in result.stderr, result


def read_victims(node: Machine) -> list[str]:
    """The command lines of each group that was ended."""
    return [str(found) for action in node.get("oomactions") if (found := at(action, "spec.processes"))]


def check_victims(node: Machine, known: int) -> None:
    """Assert that there is one more, and that all were storms'."""
    victims = read_victims(node)
    assert len(victims) > known, victims
    assert all("tail" in commands for commands in victims), victims


def read_group(node: Machine, name: str) -> list[str]:
    """The pids of a group; AssertionError when there are none."""
    found = node.client.run("read", f"{GROUPS}/{name}/cgroup.procs").stdout.split()
    assert found, f"{name} has no process"
    return sorted(found)


def read_locked(node: Machine) -> int:
    """Kilobytes of PID 1 that stay in memory."""
    lines = node.talosctl("read", "/proc/1/status").stdout.splitlines()
    [locked] = [line.split()[1] for line in lines if line.startswith("VmLck:")]
    return int(locked)


def read_kept(node: Machine) -> dict[str, list[str]]:
    """The pids of what has to go on, by group."""
    return {name: read_group(node, name) for name in (*KEPT, PAYING)}


def check_kept(node: Machine, before: dict[str, list[str]]) -> None:
    """Assert that all of them go on; a debug container has a process beside its containerd."""
    now = read_kept(node)
    assert all(set(pids) <= set(now[name]) for name, pids in before.items()), (before, now)
