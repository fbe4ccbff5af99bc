"""Upgrade of Kubernetes: component by component across the nodes, each followed until it runs."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import ContainerdInstance
from talos.api.machine.image_pb2 import ImageServicePullRequest, ImageServicePullResponse
from talos.api.machine.machine_pb2 import Version, VersionResponse
from talos.api.rpc import RpcError
from talos.config.model import Config
from talos.daemon.health_calls import ClusterNodes
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.resource import kinds
from talos.resource.kind import Kind
from talos.resource.objects import to_plain
from talos.system.errors import UserError
from talos.talosctl.client.change import change_config
from talos.talosctl.client.command import parts
from talos.talosctl.client.resources import get_resource, list_resources
from talos.talosctl.client.session import Session
from talos.talosctl.commands.image import NAMESPACES
from talos.talosctl.kubernetes import components
from talos.talosctl.kubernetes.components import Component
from talos.talosctl.kubernetes.sync import SyncOptions, sync_manifests
from talos.talosctl.kubernetes.versions import PODS, check_support
from talos.upgrade.manifest import find_version

PATIENCE = 600.0
"""Seconds for a component of one node: an image has to come, too, when it was not pulled before."""
PAUSE = 1.0
CONFIG_VERSION = "talos.dev/config-version"

type Check = Callable[[], Awaitable[str]]
"""What is still waited for, empty when nothing is."""
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
        self._client = client
        self._report = options.report

    async def run(self) -> None:
        """All steps in upstream's order."""
        options, target = self._options, self._options.target
        await self._check_nodes()
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
        request = ImageServicePullRequest(containerd=containerd, image_ref=image)
        path = "/machine.ImageService/Pull"
        try:
            async with self._session.stream(node, path, request, ImageServicePullResponse) as replies:
                async for _ in replies:
                    pass
        except RpcError as error:
            text = f"the image {image} can't be pulled: {error.message}"
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
                await self._wait(node, component, check)

    async def _wait(self, node: str, component: Component, check: Check) -> None:
        """Repeat a check until it finds nothing to wait for; show the reason when it changes."""
        end, shown = time.monotonic() + PATIENCE, ""
        while True:
            try:
                reason = await check()
            except KubernetesError as error:
                reason = f"the API server does not answer: {error}"
            except RpcError as error:
                reason = error.message
            if not reason:
                break
            if time.monotonic() > end:
                text = f"{component.name} is not updated after {PATIENCE:g} s: {reason}"
                raise UserError(text, where=f"node {node}", hint="see talosctl logs kubelet, containers -k")
            if reason != shown:
                self._report(f' > "{node}": {component.name}: {reason}')
                shown = reason
            await asyncio.sleep(PAUSE)
        self._report(f' < "{node}": successfully updated')

    async def _follow_pod(self, node: str, component: Component) -> Check:
        """A check of a static pod: as the API server shows it, it has the node's settings and is ready."""
        image, is_told = self._options.image(component), False
        name = f"{component.name}-{await self._find_nodename(node)}"
        assert component.resource is not None
        kind, id_ = component.resource

        async def check() -> str:
            nonlocal is_told
            if not is_told:
                self._report(f' > "{node}": waiting for {component.name} pod update')
                is_told = True
            resource = await get_resource(self._session, node, kind.namespace, kind.type, id_)
            if kind.spec.FromString(resource.spec.proto_spec).image != image:
                return "waiting, the node has not read its config yet"
            pod = await self._client.get_or_none(f"{PODS}/{quote(name)}")
            return find_unready(pod, resource.metadata.version)

        return check

    async def _follow_kubelet(self, node: str, component: Component) -> Check:
        """A check of the kubelet: it has started anew, and the node is ready with its version."""
        before = await self._service_version(node)
        path, is_told = f"/api/v1/nodes/{quote(await self._find_nodename(node))}", False
        told = f' > "{node}": waiting for {component.name} restart'

        async def check() -> str:
            nonlocal is_told, told
            if told:
                self._report(told)
                told = ""
            version, is_healthy = await self._service_version(node), await self._is_healthy(node)
            if version == before or not is_healthy:
                return "waiting for the service"
            if not is_told:
                self._report(f' > "{node}": waiting for node update')
                is_told = True
            found = await self._client.call("GET", path)
            running = found["status"]["nodeInfo"]["kubeletVersion"]
            if running != f"v{self._options.target}":
                return f"kubelet version mismatch: got {running}, expected v{self._options.target}"
            conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
            return "" if conditions.get("Ready") == "True" else "node is not ready"

        return check

    async def _find_manifests(self) -> list[dict[str, Any]]:
        """The objects of the first control plane node, as soon as they have the new image of kube-proxy."""
        node, kind = self._options.nodes.control_plane[0], kinds.MANIFEST
        config_kind = kinds.BOOTSTRAP_MANIFESTS_CONFIG
        wanted, end = self._options.image(components.PROXY), time.monotonic() + PATIENCE
        while True:
            configs = await self._specs(node, config_kind)
            found = [to_plain(item.object) for spec in await self._specs(node, kind) for item in spec.items]
            is_late = any(spec.proxy_enabled for spec in configs) and not any(
                _has_image(one, wanted) for one in found
            )
            if self._options.dry_run or not is_late:
                return found
            if time.monotonic() > end:
                raise UserError(f"its manifests don't have {wanted}", where=f"node {node}")
            await asyncio.sleep(PAUSE)

    async def _specs(self, node: str, kind: Kind[Any]) -> list[Any]:
        found = await list_resources(self._session, node, kind.namespace, kind.type)
        return [kind.spec.FromString(resource.spec.proto_spec) for resource in found]

    async def _find_nodename(self, node: str) -> str:
        found = await self._specs(node, kinds.NODENAME)
        if not found:
            raise UserError("it has no name in Kubernetes", where=f"node {node}")
        return found[0].nodename

    async def _service(self, node: str) -> Any:
        kind = kinds.SERVICE
        return await get_resource(self._session, node, kind.namespace, kind.type, components.KUBELET.name)

    async def _service_version(self, node: str) -> str:
        return (await self._service(node)).metadata.version

    async def _is_healthy(self, node: str) -> bool:
        spec = kinds.SERVICE.spec.FromString((await self._service(node)).spec.proto_spec)
        return spec.running and spec.healthy


def find_unready(pod: Any, version: str) -> str:
    """Why a static pod is not yet that of this version of its settings; empty when it is, and ready."""
    if pod is None:
        return "pod is not there, waiting"
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    found = annotations.get(CONFIG_VERSION)
    if found != version:
        return f'waiting, config version mismatch: got "{found}", expected "{version}"'
    conditions = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions", [])}
    return "" if conditions.get("Ready") == "True" else "pod is not ready, waiting"


def _has_image(manifest: dict[str, Any], image: str) -> bool:
    containers: Sequence[Any] = (
        manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
        if manifest["kind"] == "DaemonSet"
        else ()
    )
    return any(one.get("image") == image for one in containers)
