"""How a container ends."""

from pathlib import Path

import pytest

from talos.provision.container.nodes import ContainerNodes
from talos.provision.launcher import Outcome
from talos.provision.plan import ClusterOptions, make_request
from talos.provision.store import ClusterFolder


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (1, Outcome.RESTART),
        (2, Outcome.POWER_OFF),
        (9, Outcome.CRASH),
        (0, Outcome.CRASH),
        (256, Outcome.CRASH),
    ],
)
def test_the_end_of_pid_1_is_understood(status: int, outcome: Outcome) -> None:
    request = make_request(ClusterOptions(image=Path("/i")))
    nodes = ContainerNodes(ClusterFolder(Path("/c")), request, ())
    assert nodes.end(request.nodes[0], status) is outcome
