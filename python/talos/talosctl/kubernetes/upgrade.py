"""Upgrade of Kubernetes: component by component across the nodes, each followed until it runs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import ContainerdInstance
from talos.api.machine.machine_pb2 import Version, VersionResponse
from talos.api.rpc import RpcError
from talos.api.specs import parse_spec
from talos.client.namespaces import NAMESPACES
from talos.client.resources import get_resource
from talos.client.session import Session
from talos.client.wait import Check, wait_until
from talos.config.model import Config
from talos.fleet.calls import pull_image
from talos.health.calls import ClusterNodes
from talos.kubernetes.client import KubernetesClient
from talos.resource import kinds
from talos.resource.objects import is_ready
from talos.system.errors import UserError
from talos.talosctl.client.change import change_config
from talos.talosctl.client.command import parts
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.kubernetes import components
from talos.talosctl.kubernetes.components import Component
from talos.talosctl.kubernetes.follow import (
    CONFIG_VERSION,
    find_late,
    find_late_pods,
    read_kubelet,
    read_nodename,
)
from talos.talosctl.kubernetes.removals import REMOVALS
from talos.talosctl.kubernetes.removed import find_objects, find_requested, find_settings, open_servers
from talos.talosctl.kubernetes.sync import SyncOptions, sync_manifests
from talos.talosctl.kubernetes.system_pods import find_manifests
from talos.talosctl.kubernetes.versions import check_support, parse
from talos.talosctl.output.table import format_table
from talos.upgrade.release.manifest import find_version

COMPONENT_TIMEOUT = 600.0
"""Seconds for a component of one node: an image has to come, too, when it was not pulled before."""
STEADY = 10
"""Looks in a row at which a new kubelet's static pods are ready: it begins with them seconds later."""

type Follow = Callable[[str, Component], Awaitable[Check]]
"""Makes the check of one component of one node, before its config is changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeOptions:
    """What is upgraded, and how configs are written. Versions are without ``v``, images without tags."""

    source: str
    target: str
    images: dict[str, str]
    nodes: ClusterNodes
    dry_run: bool
    pre_pull: bool
    kubelet: bool
    docs: bool
    examples: bool
    sync: SyncOptions
    report: Callable[[str], None]

    def image(self, component: Component) -> str:
        """The new image of a component."""
        return f"{self.images[component.name]}:v{self.target}"


class KubernetesUpgrade:
    """One upgrade. Errors are UserError, RpcError, KubernetesError; what is done by then stays."""

    def __init__(self, options: UpgradeOptions, session: Session, client: KubernetesClient) -> None:
        self._options = options
        self._session = session
        self._calls = SessionCalls(session)
        self._client = client
        self._report = options.report

    async def run(self) -> None:
        """All steps in upstream's order."""
        options, target = self._options, self._options.target
        await self._check_nodes()
        await self._check_removals()
        if options.pre_pull:
            await self._pull_images()
        for component in components.STATIC_PODS:
            self._report(f'updating "{component.name}" to version "{target}"')
            for node in options.nodes.control_plane:
                await self._update(node, component, self._follow_pod)
        self._report(f'updating kube-proxy to version "{target}"')
        for node in options.nodes.control_plane:
            await self._update(node, components.PROXY, None)
        if options.kubelet:
            self._report(f'updating kubelet to version "{target}"')
            for node in options.nodes.all:
                await self._update(node, components.KUBELET, self._follow_kubelet)
        self._report("updating manifests")
        await sync_manifests(self._client, await self._find_manifests(), options.sync)

    async def _check_nodes(self) -> None:
        for node in self._options.nodes.all:
            path = "/machine.MachineService/Version"
            reply = await self._session.unary(node, path, Empty(), VersionResponse, timeout=10)
            tag = next(part.version.tag for part in parts(reply, Version)).removeprefix("v")
            check_support(tag, self._options.target, node)
            compatible = f"Talos version {tag} is compatible with Kubernetes version {self._options.target}"
            self._report(f'> "{node}": {compatible}')

    async def _check_removals(self) -> None:
        """Show what the new version has no more; UserError when it is in the way of the upgrade."""
        options = self._options
        source, target = (parse(text, "a version")[:2] for text in (options.source, options.target))
        removals = REMOVALS.get(target) if source != target else None
        if removals is None:
            return
        self._report("checking for removed Kubernetes component flags")
        tables: list[list[tuple[str, ...]]] = [
            [("NODE", "COMPONENT", title), *items]
            for title, items in (await find_settings(self._calls, options.nodes, removals)).items()
        ]
        self._report("checking for removed Kubernetes API resource versions")
        if objects := await find_objects(self._client, removals):
            tables.append([("REMOVED RESOURCE", "COUNT"), *objects])
        servers = await open_servers(self._calls, options.nodes, self._client)
        for line in await find_requested(servers, target):
            self._report(f" > warning: {line}")
        for table in tables:
            self._report(format_table(table))
        if tables:
            version = f"{target[0]}.{target[1]}"
            text = f"it uses what Kubernetes {version} has no more"
            hint = "take it out of the machine configs, delete the objects"
            raise UserError(text, where="the cluster", hint=hint)

    async def _pull_images(self) -> None:
        options = self._options
        wanted = [(one, "cri", options.nodes.control_plane) for one in components.STATIC_PODS]
        if options.kubelet:
            wanted.append((components.KUBELET, "system", options.nodes.all))
        for component, namespace, nodes in wanted:
            for node in nodes:
                image = options.image(component)
                self._report(f' > "{node}": pre-pulling {image}')
                if not options.dry_run:
                    await self._pull(node, namespace, image)

    async def _pull(self, node: str, namespace: str, image: str) -> None:
        driver, found = NAMESPACES[namespace]
        containerd = ContainerdInstance(driver=driver, namespace=found)
        try:
            await pull_image(self._calls, node, containerd, image, lambda _: None)
        except RpcError as error:
            text = f"the image {image} can't be pulled: {error.reason}"
            raise UserError(text, where=f"node {node}", hint="nothing is changed yet") from error

    async def _update(self, node: str, component: Component, follow: Follow | None) -> None:
        """Change one node's config and wait until it runs the image, if it can be followed."""
        options, image = self._options, self._options.image(component)
        self._report(f' > "{node}": starting update')

        def change(config: Config) -> Config:
            old = components.find_image(config, component)
            if old == image or not components.is_enabled(config, component):
                return config
            version = find_version(old).removeprefix("v") or options.source
            self._report(f" > update {component.name}: {version} -> {options.target}")
            return config if options.dry_run else components.set_image(config, component, image)

        check = await follow(node, component) if follow else None
        is_changed = await change_config(
            self._session, node, change, docs=options.docs, examples=options.examples
        )
        if options.dry_run:
            self._report(" > skipped in dry-run")
        elif is_changed:
            self._report(f' > "{node}": machine configuration patched')
            if check is not None:
                await wait_until(
                    check,
                    what=f"node {node}, {component.name}",
                    seconds=COMPONENT_TIMEOUT,
                    hint="see talosctl logs kubelet, containers -k",
                    report=lambda reason: self._report(f' > "{node}": {component.name}: {reason}'),
                )
                self._report(f' < "{node}": successfully updated')

    async def _follow_pod(self, node: str, component: Component) -> Check:
        """A check of a static pod: as the API server shows it, it has the node's settings and is ready."""
        image, is_reported = self._options.image(component), False
        name = f"{component.name}-{await read_nodename(self._session, node)}"
        assert component.resource is not None
        kind, id_ = component.resource

        async def check() -> str:
            nonlocal is_reported
            if not is_reported:
                self._report(f' > "{node}": waiting for {component.name} pod update')
                is_reported = True
            resource = await get_resource(self._session, node, kind.namespace, kind.type, id_)
            if parse_spec(kind.spec, resource).image != image:
                return "waiting, the node has not read its config yet"
            return await find_late(self._client, name, CONFIG_VERSION, resource.metadata.version)

        return check

    async def _follow_kubelet(self, node: str, component: Component) -> Check:
        """A check of the kubelet: it has started anew, and the node is ready with its version."""
        before = (await read_kubelet(self._session, node)).version
        steady = 0
        path, is_reported = f"/api/v1/nodes/{quote(await read_nodename(self._session, node))}", False
        waiting = f' > "{node}": waiting for {component.name} restart'

        async def check() -> str:
            nonlocal is_reported, waiting, steady
            if waiting:
                self._report(waiting)
                waiting = ""
            kubelet = await read_kubelet(self._session, node)
            if kubelet.version == before or not kubelet.is_healthy:
                return "waiting for the service"
            if not is_reported:
                self._report(f' > "{node}": waiting for node update')
                is_reported = True
            found = await self._client.call("GET", path)
            running = found["status"]["nodeInfo"]["kubeletVersion"]
            if running != f"v{self._options.target}":
                return f"kubelet version mismatch: got {running}, expected v{self._options.target}"
            if not is_ready(found["status"]):
                return "node is not ready"
            if node not in self._options.nodes.control_plane:
                return ""
            # A kubelet of another minor version starts static pods anew, soon after its start.
            reason = await find_late_pods(self._session, self._client, node, CONFIG_VERSION)
            steady = 0 if reason else steady + 1
            return reason or ("" if steady >= STEADY else "its static pods may start again")

        return check

    async def _find_manifests(self) -> list[dict[str, Any]]:
        """The objects of the first control plane node, as soon as they have the new image of kube-proxy."""
        node, wanted = self._options.nodes.control_plane[0], self._options.image(components.PROXY)
        found = list[dict[str, Any]]()

        async def check() -> str:
            configs = await self._calls.specs(node, kinds.BOOTSTRAP_MANIFESTS_CONFIG)
            found[:] = await find_manifests(self._session, node)
            is_late = any(spec.proxy_enabled for spec in configs) and not any(
                _has_image(one, wanted) for one in found
            )
            return f"its manifests don't have {wanted}" if is_late and not self._options.dry_run else ""

        await wait_until(check, what=f"node {node}", seconds=COMPONENT_TIMEOUT)
        return found


def _has_image(manifest: dict[str, Any], image: str) -> bool:
    containers: Sequence[Any] = (
        manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
        if manifest["kind"] == "DaemonSet"
        else ()
    )
    return any(one.get("image") == image for one in containers)
