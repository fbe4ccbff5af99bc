"""``talosctl rotate-ca``."""

from pathlib import Path

from talos.api.rpc import RpcError
from talos.client.session import open_session
from talos.client.target import Target
from talos.config.talosconfig.model import Context, TalosConfig
from talos.config.talosconfig.places import save
from talos.health.calls import ClusterNodes
from talos.kubernetes.client import KubernetesError
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import need_one_node, run_async
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.health import find_nodes
from talos.talosctl.client.rotation import RotationOptions, make_new_authority, rotate_authority
from talos.talosctl.client.select import find_target
from talos.talosctl.kubernetes import rotation as kubernetes
from talos.talosctl.kubernetes.command import report_failure
from talos.talosctl.output import console


def run_rotate(invocation: Invocation) -> int:
    """Rotate the CA of the nodes' API, with a talosconfig for the new one, and that of Kubernetes."""
    flags = invocation.flags
    if not flags.is_set("talos") and not flags.is_set("kubernetes"):
        raise UserError("nothing is to be rotated", where="--talos, --kubernetes")
    output, dry_run = Path(flags.text("output")), flags.is_set("dry-run")

    async def main() -> int:
        target = await find_target(flags)
        try:
            nodes = await choose_nodes(flags, target)
            if flags.is_set("talos"):
                target = await _rotate_talos(flags, target, nodes, output)
            if flags.is_set("kubernetes"):
                await _rotate_kubernetes(flags, target, nodes)
        except (RpcError, KubernetesError) as error:
            return report_failure(error, target)
        if dry_run:
            console.write_line(
                "> Dry-run mode enabled, no changes were made to the cluster, re-run with `--dry-run=false` "
                "to apply the changes."
            )
        elif flags.is_set("talos"):
            console.write_line(f'> Writing new talosconfig to "{output}"')
        return 0

    return run_async(main())


async def _rotate_talos(flags: Flags, target: Target, nodes: ClusterNodes, output: Path) -> Target:
    options = RotationOptions(
        target=target,
        nodes=nodes,
        dry_run=flags.is_set("dry-run"),
        docs=flags.is_set("with-docs"),
        examples=flags.is_set("with-examples"),
        report=console.report,
        save=lambda new: save(make_talosconfig(new, flags), output),
    )
    return await rotate_authority(options, make_new_authority())


async def _rotate_kubernetes(flags: Flags, target: Target, nodes: ClusterNodes) -> None:
    options = kubernetes.RotationOptions(
        nodes=nodes,
        endpoint=flags.text("k8s-endpoint"),
        dry_run=flags.is_set("dry-run"),
        docs=flags.is_set("with-docs"),
        examples=flags.is_set("with-examples"),
        report=console.report,
    )
    async with open_session(target) as session:
        new = kubernetes.make_kubernetes_authority()
        await kubernetes.KubernetesRotation(options, session, new).run()


async def choose_nodes(flags: Flags, target: Target) -> ClusterNodes:
    """The nodes of the flags, else the members that the one node has."""
    node = need_one_node(target, "rotate-ca")
    init = flags.text("init-node")
    control_plane = (*filter(None, [init]), *flags.texts("control-plane-nodes"))
    if control_plane:
        return ClusterNodes(control_plane=control_plane, workers=flags.texts("worker-nodes"))
    async with open_session(target) as session:
        return await find_nodes(session, node)


def make_talosconfig(target: Target, flags: Flags) -> TalosConfig:
    """A client's file with the one context."""
    context = Context(
        endpoints=tuple(str(endpoint) for endpoint in target.endpoints),
        nodes=() if flags.texts("nodes") else target.nodes,
        ca=target.ca,
        crt=target.crt,
        key=target.key,
        proxy_url=target.proxy_url,
        cluster=target.cluster,
    )
    return TalosConfig(context=target.context, contexts={target.context: context})


COMMAND = Command(
    name="rotate-ca",
    summary="Replace the CAs of the nodes' API and of Kubernetes by new ones",
    details=(
        "The new CA is accepted by all nodes before it issues, and the old one until every node has "
        "certificates of the new one, so that the APIs stay reachable. Without --dry-run=false nothing is "
        "changed. The talosconfig is written as soon as it works, trusting both CAs, and again at the end. "
        "Of Kubernetes the pods of the system are started again; the user's own may need it, too."
    ),
    flags=(
        *CLIENT_FLAGS,
        Flag(name="control-plane-nodes", type=Type.STRINGS, help="control plane nodes, if not discovered"),
        Flag(name="dry-run", type=Type.BOOL, default="true", help="only show what would be done"),
        Flag(name="init-node", help="the first node of a cluster of the oldest kind"),
        Flag(name="k8s-endpoint", help="use this Kubernetes endpoint instead of the configured one"),
        Flag(name="kubernetes", type=Type.BOOL, default="true", help="rotate the CA of Kubernetes"),
        Flag(name="output", short="o", default="talosconfig", help="the file for the new talosconfig"),
        Flag(name="talos", type=Type.BOOL, default="true", help="rotate the CA of the nodes' API"),
        Flag(
            name="with-docs",
            type=Type.BOOL,
            default="true",
            help="write configs with remarks on fields",
        ),
        Flag(
            name="with-examples",
            type=Type.BOOL,
            default="true",
            help="write configs with examples as comments",
        ),
        Flag(name="worker-nodes", type=Type.STRINGS, help="the workers, if nodes are named"),
    ),
    run=run_rotate,
)
