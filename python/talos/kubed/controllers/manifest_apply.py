"""Manifests become objects of the cluster, by one control plane node at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from talos.api.definitions.k8s_pb2 import ManifestStatusSpec
from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.api.rpc import RpcError
from talos.etcd.access import EtcdAccess
from talos.etcd.lock import MANIFESTS, hold_lock
from talos.kubed.admin import ADMIN_INPUTS, AdminAccess, find_admin_secret, find_pause
from talos.kubernetes.apply import create_missing, order
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.kubernetes.inventory import ObjectId, find_recorded, identify, read_inventory, write_inventory
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.objects import to_plain
from talos.system.logging import Log

RETRY_INTERVAL = 2.0
"""Seconds between the first tries while the API server starts or refuses."""
LOCK_TTL = 60  # seconds
"""After which the lock of a node that is gone is free (as upstream)."""
MARGIN = 10.0
"""Seconds before the end of the lock at which a round stops."""
DIAGNOSTIC = "manifests"


@dataclass(slots=True)
class _Round:
    """One attempt. ``recorded`` are the objects that are there, or have been."""

    recorded: set[ObjectId] = field(default_factory=set[ObjectId])
    refused: list[str] = field(default_factory=list[str])
    """What the API server refuses: it may do so for ever."""
    unreached: str = ""
    """Why the API server or etcd could not be called."""


class ManifestApplyController(Controller):
    """Manifest → objects in Kubernetes → ManifestStatus.

    An object is made once: what is there already stays as it is, and so does what has been removed since.
    Later changes are applied by `talosctl upgrade-k8s`.
    """

    name = "k8s.ManifestApplyController"
    inputs = (
        Input(kinds.MANIFEST),
        *ADMIN_INPUTS,
        Input(*ids.NODENAME),
    )
    outputs = (Output(kinds.MANIFEST_STATUS), Output(kinds.DIAGNOSTIC, shared=True))

    def __init__(self, etcd: EtcdAccess, log: Log) -> None:
        self._etcd = etcd
        self._log = log
        self._access = AdminAccess()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Apply at every change; repeated until everything is there, or the manifests change."""
        async for _ in runtime.events():
            began = trio.current_time()
            while (result := await self._reconcile(runtime)) and (result.refused or result.unreached):
                pause = find_pause(began, RETRY_INTERVAL)
                if not result.unreached:
                    pause = max(pause, runtime.count_failure())
                await runtime.wait_before_retry(pause)
            runtime.reset_backoff()

    async def _reconcile(self, runtime: ControllerRuntime) -> _Round | None:
        root = await find_admin_secret(runtime)
        nodename = await runtime.get_or_none(*ids.NODENAME)
        if root is None or nodename is None:
            return None
        manifests = {
            found.metadata.id: [to_plain(item.object) for item in found.spec.items]
            for found in await runtime.list(kinds.MANIFEST)
        }
        if not manifests:
            return None
        objects = order([one for name in sorted(manifests) for one in manifests[name]])
        result = await self._apply(self._access.connect(root), nodename.spec.nodename, objects)
        if result.unreached:
            self._log.once(f"the manifests wait: {result.unreached}", key="manifests wait", level="info")
        else:
            await self._report(runtime, manifests, result)
        return result

    async def _report(
        self, runtime: ControllerRuntime, manifests: Mapping[str, Sequence[Any]], result: _Round
    ) -> None:
        for text in result.refused:
            self._log.once(f"a manifest is not applied: {text}", key=f"manifest {text.partition(':')[0]}")
        applied = [
            name
            for name, objects in sorted(manifests.items())
            if all(find_recorded(one, result.recorded) for one in objects)
        ]
        async with runtime.track_outputs():
            await runtime.put(*ids.MANIFEST_STATUS, ManifestStatusSpec(manifests_applied=applied))
            if result.refused:
                message = "manifests of the machine config are not applied"
                spec = DiagnosticSpec(message=message, details=result.refused)
                await runtime.put(kinds.DIAGNOSTIC, DIAGNOSTIC, spec)

    async def _apply(
        self, client: KubernetesClient, holder: str, objects: Sequence[Mapping[str, Any]]
    ) -> _Round:
        result = _Round()
        try:
            result.recorded = await read_inventory(client)
            if all(find_recorded(one, result.recorded) for one in objects):
                return result
            async with self._etcd.local() as store, hold_lock(store, MANIFESTS, holder, LOCK_TTL):
                # Another node may have come first.
                result.recorded = await read_inventory(client)
                with trio.move_on_after(LOCK_TTL - MARGIN) as limit:
                    await self._create_all(client, objects, result)
                if limit.cancelled_caught:
                    result.unreached = "the API server takes too long"
        except KubernetesError as error:
            result.unreached = str(error)
        except RpcError as error:
            result.unreached = f"etcd: {error.reason}"
        return result

    @staticmethod
    async def _create_all(
        client: KubernetesClient, objects: Sequence[Mapping[str, Any]], result: _Round
    ) -> None:
        """Create what is not recorded; one that is refused doesn't keep the others from it."""
        created: list[ObjectId] = []
        try:
            for manifest in objects:
                if find_recorded(manifest, result.recorded):
                    continue
                try:
                    created.append(await create_missing(client, manifest))
                except KubernetesError as error:
                    if not error.status:
                        raise
                    result.refused.append(f"{identify(manifest).subject}: {error}")
        finally:
            with trio.CancelScope(shield=True):
                await write_inventory(client, added=created)
            result.recorded |= set(created)
