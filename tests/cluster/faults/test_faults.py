"""Faults of all kinds while clients write and read: nothing acknowledged is lost, and all is healthy again.

FAULT_SECONDS and FAULT_NODES make a longer run on more nodes, FAULT_SEED repeats an order of faults.
"""

import os
import random
import sys
import time
from collections.abc import Iterator

import pytest
from driver.workload import Observations
from tests.cluster.faults.faults import Injector
from tests.cluster.faults.partition import partition
from tests.cluster.faults.plan import make_plan
from tests.cluster.faults.workload import read_at_all_members, running_workload
from tests.harness.cluster import Cluster, check_services, eventually, running_cluster
from tests.harness.etcd import open_keys

from talos.system.errors import UserError

NO_ANSWER = r"DEADLINE_EXCEEDED|UNAVAILABLE|CANCELLED|etcdserver"
FAULT_DURATION = float(os.environ.get("FAULT_SECONDS", "90"))
NODES = int(os.environ.get("FAULT_NODES", "3"))
SEED = int(os.environ.get("FAULT_SEED") or random.randrange(1 << 32))
HEALTHY = 120.0
"""Seconds after the last fault in which all is healthy again; a killed init takes ten to be started anew."""
CUT_OFF = 5.0
"""Seconds that a member gets for a call while it is cut off."""
MIN_OPERATIONS = 100
"""Acknowledged writes below which a run has shown nothing."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("clusters"), controlplanes=NODES) as running:
        yield running


def check_members(cluster: Cluster) -> None:
    """Every member has the same members, all of which vote."""
    views = [cluster.rows("-e", address, "-n", address, "etcd", "members") for address in cluster.addresses]
    names = {node.name for node in cluster.nodes}
    for view in views:
        assert {row["HOSTNAME"] for row in view} == names, view
        assert len(view) == len(names), view
        assert all(row["LEARNER"] == "false" for row in view), view
        assert {row["ID"] for row in view} == {row["ID"] for row in views[0]}


def check_health(cluster: Cluster, seen: Observations) -> None:
    """Assert that every service is up, that all are members, and that every member answers."""
    try:
        for address in cluster.addresses:
            check_services(cluster, address)
        check_members(cluster)
    except UserError as error:
        raise AssertionError(f"a command does not end: {error}") from None
    read_at_all_members(cluster, cluster.nodes, seen)


def test_a_member_that_is_cut_off_answers_nothing_and_the_others_do(cluster: Cluster) -> None:
    alone, other = cluster.nodes[-1], cluster.nodes[0]
    targets = [str(node.address) for node in cluster.nodes[:-1]]
    with (
        open_keys(cluster, alone, timeout=CUT_OFF) as lonely,
        open_keys(cluster, other) as keys,
    ):
        eventually("a key is read", lambda: lonely.read("cut-off"))
        with partition(cluster.info.launcher, [str(alone.address)], targets):
            # Without an answer it may still arrive when the network is back: so to a key of its own.
            # etcd may end the stream of a call that it can't confirm (CANCELLED): no answer, either.
            for call in (lambda: lonely.put("late", "perhaps"), lambda: lonely.read("cut-off")):
                with pytest.raises(AssertionError, match=NO_ANSWER):
                    call()
            eventually("the others write", lambda: keys.put("cut-off", "kept"))

        def is_back() -> None:
            assert lonely.get("cut-off") == "kept"

        eventually("it is back", is_back)


def test_nothing_is_lost_and_all_is_well_again(cluster: Cluster) -> None:
    plan = make_plan(SEED, NODES, FAULT_DURATION)
    text = "\n".join(f"  {fault}" for fault in plan)
    sys.stdout.write(
        f"FAULT_SEED={SEED} FAULT_NODES={NODES} FAULT_SECONDS={FAULT_DURATION:g}; in this order:\n{text}\n"
    )
    injector = Injector(cluster, NODES)
    with running_workload(cluster, cluster.nodes, SEED) as seen:
        for fault in plan:
            injector.inject(fault)
            time.sleep(fault.pause)
        began = time.monotonic()
        eventually("all is well", lambda: check_health(cluster, seen), seconds=HEALTHY, pause=0.5)
        recovery = time.monotonic() - began
    read_at_all_members(cluster, cluster.nodes, seen)
    acknowledged = seen.history.count_acknowledged()
    sys.stdout.write(f"{seen.describe()}; all well {recovery:.1f} s after the last fault\n")
    problems = seen.find_problems()
    assert not problems, "\n".join(problems[:20])
    assert acknowledged >= MIN_OPERATIONS
