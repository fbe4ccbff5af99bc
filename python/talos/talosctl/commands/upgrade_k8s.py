"""``talosctl upgrade-k8s``."""

import asyncio
from collections.abc import Callable

from talos.client.session import Session
from talos.config import contract
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.command import run_async
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.health import find_nodes
from talos.talosctl.client.kubeconfig import connect
from talos.talosctl.kubernetes import components
from talos.talosctl.kubernetes.command import run_on_cluster
from talos.talosctl.kubernetes.sync import POLICIES, SyncOptions
from talos.talosctl.kubernetes.upgrade import KubernetesUpgrade, UpgradeOptions
from talos.talosctl.kubernetes.versions import check_default, check_path, find_running, parse
from talos.talosctl.output import console

IMAGES = {
    components.API_SERVER: ("apiserver-image", contract.KUBE_API_SERVER_IMAGE),
    components.CONTROLLER_MANAGER: ("controller-manager-image", contract.KUBE_CONTROLLER_MANAGER_IMAGE),
    components.SCHEDULER: ("scheduler-image", contract.KUBE_SCHEDULER_IMAGE),
    components.PROXY: ("proxy-image", contract.KUBE_PROXY_IMAGE),
    components.KUBELET: ("kubelet-image", contract.KUBELET_IMAGE),
}
"""The flag of each component's image, and its default."""


def run_upgrade(invocation: Invocation) -> int:
    """Upgrade Kubernetes on all nodes of the cluster."""
    flags = invocation.flags
    # Before any call: these need no node.
    target = flags.text("to").removeprefix("v")
    parse(target, "--to")
    if flags.text("from"):
        check_path(flags.text("from"), target)
    if flags.text("manifests-inventory-policy") not in POLICIES:
        hint = f"one of {', '.join(POLICIES)}"
        raise UserError("there is no such policy", where="--manifests-inventory-policy", hint=hint)

    async def upgrade(session: Session, node: str) -> None:
        try:
            await upgrade_kubernetes(session, node, flags, console.report)
        except asyncio.CancelledError:
            console.note("interrupted: what is done stays; the same command goes on from there")
            raise

    return run_async(run_on_cluster(flags, "upgrade-k8s", upgrade))


async def upgrade_kubernetes(
    session: Session, node: str, flags: Flags, report: Callable[[str], None]
) -> None:
    """Do what the flags request; UserError, RpcError, KubernetesError."""
    target = flags.text("to").removeprefix("v")
    nodes = await find_nodes(session, node)
    client = await connect(session, nodes.control_plane[0], flags.text("endpoint"))
    source = flags.text("from").removeprefix("v")
    running = await find_running(client)
    if not source:
        source = running[0]
        report(f"automatically detected the lowest Kubernetes version {source}")
    if not flags.is_given("to"):
        check_default(running, target)
    check_path(source, target)
    if parse(running[-1], "the cluster")[:2] > parse(target, "--to")[:2]:
        check_path(running[-1], target)  # such as a kubelet that is newer than what the others get
    for kind, found in (("controlplane", nodes.control_plane), ("worker", nodes.workers)):
        report(f"discovered {kind} nodes [{' '.join(f'"{one}"' for one in found)}]")
    dry_run = flags.is_set("dry-run")
    options = UpgradeOptions(
        source=source,
        target=target,
        images={component.name: flags.text(flag) for component, (flag, _) in IMAGES.items()},
        nodes=nodes,
        dry_run=dry_run,
        pre_pull=flags.is_set("pre-pull-images"),
        kubelet=flags.is_set("upgrade-kubelet"),
        docs=flags.is_set("with-docs"),
        examples=flags.is_set("with-examples"),
        sync=SyncOptions(
            dry_run=dry_run,
            policy=flags.text("manifests-inventory-policy"),
            prune=not flags.is_set("manifests-no-prune"),
            recreate=flags.is_set("manifests-force"),
            timeout=flags.seconds("manifests-reconcile-timeout"),
            report=report,
        ),
        report=report,
    )
    await KubernetesUpgrade(options, session, client).run()


COMMAND = Command(
    name="upgrade-k8s",
    summary="Upgrade Kubernetes in the whole cluster",
    details=(
        "Upgrades the control plane, kube-proxy and the kubelets, one component and one node after the "
        "other, by changing the nodes' configs, and waits for each. Then the objects of the nodes' manifests "
        "are brought up to date. The node that is named only leads to the others."
    ),
    flags=(
        *CLIENT_FLAGS,
        *(
            Flag(name=flag, default=image, help=f"the image of {component.name}, without a tag")
            for component, (flag, image) in IMAGES.items()
        ),
        Flag(name="dry-run", type=Type.BOOL, default="false", help="only show what would be done"),
        Flag(name="endpoint", help="use this Kubernetes endpoint instead of the configured one"),
        Flag(name="from", help="the version to upgrade from, if it is not to be looked up"),
        Flag(
            name="manifests-force",
            type=Type.BOOL,
            default="false",
            help="delete objects whose changes are refused, and make them anew",
        ),
        Flag(
            name="manifests-inventory-policy",
            default="AdoptIfNoInventory",
            help="which existing objects are changed: MustMatch, AdoptIfNoInventory or AdoptAll",
        ),
        Flag(
            name="manifests-no-prune",
            type=Type.BOOL,
            default="false",
            help="keep objects that no manifest has any more",
        ),
        Flag(
            name="manifests-reconcile-timeout",
            type=Type.DURATION,
            default="5m0s",
            help="how long to wait until changed objects are rolled out",
        ),
        Flag(name="pre-pull-images", type=Type.BOOL, default="true", help="first pull all images"),
        Flag(name="to", default=contract.KUBERNETES_VERSION, help="the version to upgrade to"),
        Flag(name="upgrade-kubelet", type=Type.BOOL, default="true", help="upgrade the kubelets, too"),
        Flag(name="with-docs", type=Type.BOOL, default="true", help="write configs with remarks on fields"),
        Flag(
            name="with-examples",
            type=Type.BOOL,
            default="true",
            help="write configs with examples as comments",
        ),
    ),
    run=run_upgrade,
)
