"""``talosctl health``."""

from google.protobuf.duration_pb2 import Duration

from talos.api.cluster.cluster_pb2 import ClusterInfo, HealthCheckProgress, HealthCheckRequest
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import need_one_node, raise_error, run_async
from talos.talosctl.client.fanout import ask_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.select import select_target
from talos.talosctl.client.session import Session, open_session
from talos.talosctl.output import console


def run_health(invocation: Invocation) -> int:
    """Let a control plane node check the cluster and show what it finds."""
    flags = invocation.flags
    if not flags.is_set("server") or flags.is_set("run-e2e"):
        raise UserError(
            "this client leaves the checks to the node", where="--server=false", hint="use --server"
        )
    nodes = (*flags.texts("control-plane-nodes"), *filter(None, [flags.text("init-node")]))
    request = HealthCheckRequest(
        wait_timeout=Duration(seconds=int(flags.seconds("wait-timeout"))),
        cluster_info=ClusterInfo(
            control_plane_nodes=nodes,
            worker_nodes=flags.texts("worker-nodes"),
            force_endpoint=flags.text("k8s-endpoint"),
        ),
    )

    async def ask(session: Session, node: str) -> None:
        path = "/cluster.ClusterService/HealthCheck"
        async with session.stream(node, path, request, HealthCheckProgress) as messages:
            async for message in messages:
                raise_error(message)
                console.note(message.message)

    async def main() -> int:
        target = select_target(flags)
        async with open_session(target) as session:
            outcomes = await ask_nodes(session, [need_one_node(target, "health")], ask)
            return report_failures(session, outcomes)

    return run_async(main())


COMMAND = Command(
    name="health",
    summary="Check whether the cluster is well",
    flags=(
        *CLIENT_FLAGS,
        Flag(name="control-plane-nodes", type=Type.STRINGS, help="the control plane nodes to expect"),
        Flag(name="init-node", help="the first node of a cluster of the oldest kind"),
        Flag(name="k8s-endpoint", help="ask this Kubernetes endpoint instead of the configured one"),
        Flag(name="run-e2e", type=Type.BOOL, default="false", help="also run Kubernetes' end-to-end tests"),
        Flag(name="server", type=Type.BOOL, default="true", help="let the node do the checks"),
        Flag(
            name="wait-timeout",
            type=Type.DURATION,
            default="20m0s",
            help="how long to wait for the cluster to be well",
        ),
        Flag(name="worker-nodes", type=Type.STRINGS, help="the worker nodes to expect"),
    ),
    run=run_health,
)
