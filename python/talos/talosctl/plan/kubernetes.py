"""What a version of Kubernetes changes: each node's images, and what an upgrade would do."""

from dataclasses import replace

from talos.client.session import Session
from talos.config.generate.config import render
from talos.config.model import Config
from talos.config.read.loader import load
from talos.talosctl.cli.parse import parse
from talos.talosctl.client.change import read_config
from talos.talosctl.client.fanout import Outcome, call_nodes
from talos.talosctl.client.fleet_calls import find_plan
from talos.talosctl.client.health import SessionCalls, find_nodes
from talos.talosctl.commands.upgrade_k8s import IMAGES, upgrade_kubernetes
from talos.talosctl.kubernetes import components
from talos.talosctl.kubernetes.versions import parse as check_version
from talos.talosctl.plan.configs import plan_text
from talos.talosctl.plan.expected import ExpectedDuration
from talos.talosctl.plan.model import NodePlan, Reboot
from talos.talosctl.tree import ROOT

UNKNOWN = ("the pull of its images", "the start of its components")
"""How long these take depends on the registry, and on Kubernetes."""
_IDLE = ("no changes", "skipped in dry-run")
"""Ends of lines by which nothing happens to an object or in the run itself."""


async def plan_steps(session: Session, node: str, version: str) -> list[str]:
    """The lines of the upgrade's own dry run, which checks all; UserError, RpcError, KubernetesError."""
    check_version(version, "--kubernetes")
    lines: list[str] = []
    flags = parse(ROOT, ["upgrade-k8s", "--to", version, "--dry-run"]).flags
    await upgrade_kubernetes(session, node, flags, lines.append)
    found = [line.strip() for text in lines for line in text.splitlines()]
    return [line for line in found if line and not line.endswith(_IDLE)]


async def plan_images(session: Session, node: str, version: str) -> list[Outcome[NodePlan]]:
    """What each node of the cluster has other images of; UserError, RpcError."""
    nodes = await find_nodes(session, node)
    found = await find_plan(SessionCalls(session), nodes.all, force=True, what="plan")
    statuses = {status.node: status for status in found.nodes}

    async def call(session: Session, node: str) -> NodePlan:
        status, before = statuses[node], await read_config(session, node)
        old = load(before, source=f"node {node}")
        new, changes = set_images(old, version, is_control_plane=status.is_control_plane)
        after = render(Config(new.documents), docs=False, examples=False) if changes else before
        planned = await plan_text(session, status, before, after.encode(), source=f"node {node}")
        problems = list(found.problems.get(node, {}).values())
        expected = ExpectedDuration(unknown=UNKNOWN) if planned.is_changed else ExpectedDuration()
        return replace(planned, reboot=Reboot.NONE, changes=changes, problems=problems, expected=expected)

    return await call_nodes(session, list(statuses), call)


def set_images(config: Config, version: str, *, is_control_plane: bool) -> tuple[Config, list[str]]:
    """The config with the images of a version, and a line for each that is another."""
    parts = (*components.STATIC_PODS, components.PROXY) if is_control_plane else ()
    changes: list[str] = []
    for component in (*parts, components.KUBELET):
        image, old = f"{IMAGES[component][1]}:v{version}", components.find_image(config, component)
        if old != image and components.is_enabled(config, component):
            config = components.set_image(config, component, image)
            changes.append(f"{component.name}: {old or 'no image'} -> {image}")
    return config, changes
