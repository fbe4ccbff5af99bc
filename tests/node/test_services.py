"""Services: all there, and back after a kill."""

import os
import signal
import time

import pytest
from tests.harness.cluster import NODE_TIMEOUT, Cluster, check_services, eventually

from talos.machined.services.containerd import MAX_SILENCE
from talos.process.daemons import BY_NAME

SERVICES = {
    "apid",
    "clusterd",
    "containerd",
    "dnsd",
    "kubed",
    "kubelet",
    "etcd",
    "cri",
    "machined",
    "networkd",
    "routerd",
    "timed",
    "trustd",
    "udevd",
}
DAEMONS = ["apid", "clusterd", "containerd", "dnsd", "kubed", "networkd", "routerd", "timed", "trustd"]
# How long a daemon may be down, in seconds.
RESTART_TIMEOUT = 2.0


def test_all_services_are_well(cluster: Cluster) -> None:
    services = cluster.services()
    assert set(services) == SERVICES
    assert services["udevd"]["STATE"] == "Skipped"
    assert "launcher" in services["udevd"]["LAST EVENT"]
    check_services(cluster, cluster.addresses[0])


@pytest.mark.parametrize("name", DAEMONS)
def test_a_killed_daemon_is_back_within_two_seconds_while_the_others_serve(
    cluster: Cluster, name: str
) -> None:
    before = cluster.processes()
    pid = before[name][0]  # of the two instances of containerd one
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()

    def is_back() -> None:
        pids = cluster.processes().get(name, [])
        assert len(pids) == len(before[name]), f"{name} is not there"
        assert pid not in pids, f"{name} is still the one that was killed"

    eventually(f"{name} is back", is_back, seconds=RESTART_TIMEOUT, pause=0.02)
    assert time.monotonic() - began < RESTART_TIMEOUT
    eventually("all services are well", lambda: check_services(cluster, cluster.addresses[0]))
    after = cluster.processes()
    for other in DAEMONS:
        if other != name:
            assert after[other] == before[other], f"{other} did not survive the end of {name}"


def test_calls_go_through_while_daemons_beside_the_api_are_killed(cluster: Cluster) -> None:
    for name in ("networkd", "timed", "clusterd", "trustd"):
        (pid,) = cluster.processes()[name]
        os.kill(pid, signal.SIGKILL)
        cluster.talosctl("version", "--short")
        eventually("all services are well", lambda: check_services(cluster, cluster.addresses[0]))


@pytest.mark.soak
@pytest.mark.parametrize("names", [("containerd", "timed", "trustd", "routerd")])
def test_daemons_that_hang_are_replaced(cluster: Cluster, names: tuple[str, ...]) -> None:
    before = cluster.processes()
    for name in names:
        os.kill(before[name][0], signal.SIGSTOP)

    def are_replaced() -> None:
        after = cluster.processes()
        for name in names:
            assert len(after.get(name, [])) == len(before[name]), f"{name} is not there"
            assert before[name][0] not in after[name], f"{name} still hangs"

    silence = max(MAX_SILENCE, *(BY_NAME[name].silence for name in names if name in BY_NAME))
    eventually("all are replaced", are_replaced, seconds=silence + NODE_TIMEOUT, pause=1)
    eventually("all services are well", lambda: check_services(cluster, cluster.addresses[0]))
    after = cluster.processes()
    for other in DAEMONS:
        if other not in names:
            assert after[other] == before[other], f"{other} was replaced, too"


def test_no_check_fails_before_the_first_success(cluster: Cluster) -> None:
    events = cluster.talosctl("logs", "machined").stdout
    first: dict[str, str] = {}
    for line in events.splitlines():
        if "Health check" in line:
            name = line.partition("service[")[2].partition("]")[0]
            first.setdefault(name, line)
    assert not [line for line in first.values() if "failed" in line]


def test_health_checks_leave_no_trace_in_a_ports_log(cluster: Cluster) -> None:
    checks = cluster.talosctl("logs", "machined").stdout
    for name in ("apid", "trustd"):
        assert f"service[{name}](Running): Health check successful" in checks
        assert "127.0.0.1" not in cluster.talosctl("logs", name).stdout


def test_the_network_survives_networkd(cluster: Cluster) -> None:
    (before,) = cluster.resource("addresses", f"eth0/{cluster.addresses[0]}/24")
    (pid,) = cluster.processes()["networkd"]
    os.kill(pid, signal.SIGKILL)
    eventually("all services are well", lambda: check_services(cluster, cluster.addresses[0]))
    (after,) = cluster.resource("addresses", f"eth0/{cluster.addresses[0]}/24")
    assert after["metadata"] == before["metadata"]
