"""How etcd starts, as clusterd has it."""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any, cast

import pytest
import trio

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.etcd_pb2 import SpecSpec
from talos.api.internal import membership_pb2 as internal
from talos.api.rpc import Call
from talos.clusterd.etcd.membership_service import MembershipService

SPEC = SpecSpec(name="cp-1", image="etcd", advertised_addresses=[NetIP(ip=ip_address("10.0.0.2").packed)])
OWN = "cp-1=https://10.0.0.2:2380"
OTHERS = "cp-2=https://10.0.0.3:2380,cp-1=https://10.0.0.2:2380"
CALL = cast("Call", None)
"""What these handlers take and don't read."""


class Cluster:
    """A cluster that a node can join."""

    def __init__(self) -> None:
        self.joined: list[str] = []

    async def spec(self) -> SpecSpec:
        return SPEC

    async def join(self, spec: SpecSpec) -> str:
        self.joined.append(spec.name)
        return OTHERS


def make_service(cluster: Cluster) -> MembershipService:
    given = cast("Any", cluster)
    return MembershipService(given, given, given, given, trio.lowlevel.checkpoint)


def find_argument(argv: Sequence[str], name: str) -> str:
    (value,) = [argument.partition("=")[2] for argument in argv if argument.startswith(f"--{name}=")]
    return value


@pytest.mark.parametrize(
    ("request_", "state", "cluster", "has_restored"),
    [
        (internal.PlanRequest(start=internal.PlanRequest.NEW), "new", OWN, False),
        (internal.PlanRequest(start=internal.PlanRequest.NEW, snapshot="/s"), "new", OWN, True),
        (internal.PlanRequest(start=internal.PlanRequest.JOIN), "existing", OTHERS, False),
    ],
)
async def test_how_etcd_starts(
    request_: internal.PlanRequest, state: str, cluster: str, *, has_restored: bool
) -> None:
    joined = Cluster()
    plan = await make_service(joined).plan(request_, CALL)
    assert plan.image == "etcd"
    assert find_argument(plan.argv, "initial-cluster-state") == state
    assert find_argument(plan.argv, "initial-cluster") == cluster
    assert bool(plan.restore_argv) is has_restored
    assert joined.joined == (["cp-1"] if cluster == OTHERS else [])
