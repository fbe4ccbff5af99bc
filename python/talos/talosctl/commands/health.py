"""``talosctl health``."""

import asyncio
import time
from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from talos.api.cluster.cluster_pb2 import ClusterInfo, HealthCheckProgress, HealthCheckRequest
from talos.api.rpc import RpcError
from talos.client.failure import describe
from talos.client.session import Session, open_session
from talos.health.calls import ClusterNodes
from talos.health.conditions import wait_for_health
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import need_one_node, raise_error, run_async, run_one
from talos.talosctl.client.failure import find_exit
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.health import NoAddressError, SessionCalls, find_nodes
from talos.talosctl.client.select import find_target
from talos.talosctl.output import console

POLL_INTERVAL = 1.0
"""Seconds between two looks at the members."""


def run_health(invocation: Invocation) -> int:
    """Have the cluster checked by a control plane node, or check it from here; show what is found."""
    flags = invocation.flags
    if flags.is_set("run-e2e"):
        hint = "run Kubernetes' conformance tests"
        raise UserError("this client has no end-to-end tests", where="--run-e2e", hint=hint)
    nodes = (*flags.texts("control-plane-nodes"), *filter(None, [flags.text("init-node")]))
    if not flags.is_set("server"):
        return run_client_checks(flags, nodes)
    request = HealthCheckRequest(
        wait_timeout=Duration(seconds=int(flags.seconds("wait-timeout"))),
        cluster_info=ClusterInfo(
            control_plane_nodes=nodes,
            worker_nodes=flags.texts("worker-nodes"),
            force_endpoint=flags.text("k8s-endpoint"),
        ),
    )

    async def call(session: Session, node: str) -> None:
        path = "/cluster.ClusterService/HealthCheck"
        async with session.stream(node, path, request, HealthCheckProgress) as messages:
            async for message in messages:
                raise_error(message)
                console.note(message.message)

    return run_one(invocation, "health", call)


def run_client_checks(flags: Flags, control_plane: Sequence[str]) -> int:
    """Check the named nodes, else the members that a node has."""
    workers = flags.texts("worker-nodes")

    async def report(text: str) -> None:
        console.note(text)

    async def main() -> int:
        target = await find_target(flags)
        node = need_one_node(target, "health")
        async with open_session(target) as session:
            try:
                nodes = (
                    ClusterNodes(control_plane=control_plane, workers=workers)
                    if control_plane
                    else await _wait_for_nodes(session, node, flags.seconds("wait-timeout"))
                )
                await wait_for_health(
                    SessionCalls(session, nodes.control_plane[0], flags.text("k8s-endpoint")),
                    nodes,
                    seconds=flags.seconds("wait-timeout"),
                    report=report,
                    sleep=asyncio.sleep,
                    describe=lambda error: describe(error, target),
                )
            except RpcError as error:
                console.note(f"error: {describe(error, target)}")
                return find_exit(error)
        return 0

    return run_async(main())


async def _wait_for_nodes(session: Session, node: str, seconds: float) -> ClusterNodes:
    """The members that a node has, once each of them has an address; NoAddressError after that time."""
    end = time.monotonic() + seconds
    while True:
        try:
            return await find_nodes(session, node)
        except NoAddressError:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(POLL_INTERVAL)


COMMAND = Command(
    name="health",
    summary="Check whether the cluster is healthy",
    flags=(
        *CLIENT_FLAGS,
        Flag(name="control-plane-nodes", type=Type.STRINGS, help="the control plane nodes to expect"),
        Flag(name="init-node", help="the first node of a cluster of the oldest kind"),
        Flag(name="k8s-endpoint", help="use this Kubernetes endpoint instead of the configured one"),
        Flag(name="run-e2e", type=Type.BOOL, default="false", help="not possible here"),
        Flag(
            name="server",
            type=Type.BOOL,
            default="true",
            help="let a node do the checks, instead of this client",
        ),
        Flag(
            name="wait-timeout",
            type=Type.DURATION,
            default="20m0s",
            help="how long to wait for the cluster to be healthy",
        ),
        Flag(name="worker-nodes", type=Type.STRINGS, help="the worker nodes to expect"),
    ),
    run=run_health,
)
