"""Clients of every member of a cluster of containers."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from driver import workload
from driver.workload import Observations, running_clients
from tests.harness.cluster import Cluster
from tests.harness.etcd import open_keys

from talos.provision.cluster import NodeInfo

CLIENTS_PER_MEMBER = 2
TIMEOUT = 3.0
"""Seconds of one call; what takes longer has an unknown outcome."""
CALL_INTERVALS = (0.02, 0.2)
"""Seconds between two calls of a client, at least and at most: the machine has other work, too."""


def _name(node: NodeInfo) -> str:
    return node.name.rpartition("-")[2]


@contextmanager
def running_workload(
    cluster: Cluster,
    members: Sequence[NodeInfo],
    seed: int,
    intervals: tuple[float, float] = CALL_INTERVALS,
) -> Generator[Observations]:
    """Clients of every member, for as long as the context is open."""
    with ExitStack() as stack:
        clients = {
            f"{_name(node)}.{number}": stack.enter_context(open_keys(cluster, node, timeout=TIMEOUT))
            for node in members
            for number in range(CLIENTS_PER_MEMBER)
        }
        yield stack.enter_context(running_clients(clients, seed, intervals))


def read_at_all_members(cluster: Cluster, members: Sequence[NodeInfo], seen: Observations) -> None:
    """Read every key through every member; AssertionError when one doesn't answer."""
    with ExitStack() as stack:
        clients = {
            _name(node): stack.enter_context(open_keys(cluster, node, timeout=TIMEOUT)) for node in members
        }
        workload.read_at_all_members(clients, seen)
