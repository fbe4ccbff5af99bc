"""Access of pods to the nodes' API: the service that leads there, and certificates for accounts."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote

import trio

from talos.api.definitions.kubeaccess_pb2 import ConfigSpec
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec, OSRootSpec
from talos.config.effective import kubernetes
from talos.etcd.access import EtcdAccess
from talos.etcd.election import Election
from talos.kubed.accounts import (
    Refusal,
    check_account,
    find_roles,
    is_current,
    is_owned,
    make_secret,
)
from talos.kubed.admin import ADMIN_INPUTS, AdminAccess, find_admin_secret, find_pause
from talos.kubed.controllers.control_plane import read_control_plane_config
from talos.kubed.manifests.api_access import GROUP, PLURAL, VERSION, make_service
from talos.kubed.watch import follow
from talos.kubernetes.apply import apply, delete, find_place
from talos.kubernetes.client import MERGE, KubernetesClient, KubernetesError
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import format_now
from talos.system.logging import Log

ELECTION = b"talos:v1:serviceAccountCRDController"
ACCOUNTS = f"/apis/{GROUP}/{VERSION}/{PLURAL}"
COMPONENT = "talos-sa-controller"
RETRY_INTERVAL = 5.0  # seconds
RENEW_INTERVAL = 300.0
"""Seconds between two checks of accounts: certificates are renewed, secrets that were removed are made."""


class AccessConfigController(Reconciler):
    """MachineConfig → KubernetesAccessConfig; on control plane nodes with Kubernetes."""

    name = "kubeaccess.ConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.KUBERNETES_ACCESS_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_control_plane_config(runtime)
        async with runtime.track_outputs():
            if config is None:
                return
            access = kubernetes.api_access(config)
            spec = ConfigSpec(enabled=access is not None)
            if access is not None:
                spec.allowed_api_roles.extend(access.roles)
                spec.allowed_kubernetes_namespaces.extend(access.namespaces)
            await runtime.put(*ids.KUBERNETES_ACCESS_CONFIG, spec)


class AccessEndpointController(Controller):
    """KubernetesAccessConfig, Endpoint → the service `talos` in Kubernetes."""

    name = "kubeaccess.EndpointController"
    inputs = (
        Input(*ids.KUBERNETES_ACCESS_CONFIG),
        Input(kinds.ENDPOINT),
        *ADMIN_INPUTS,
    )

    def __init__(self, log: Log) -> None:
        self._log = log
        self._access = AdminAccess()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Apply at every change, until it succeeds."""
        async for _ in runtime.events():
            began = trio.current_time()
            while not await self._apply(runtime):
                await runtime.wait_before_retry(find_pause(began, RETRY_INTERVAL))

    async def _apply(self, runtime: ControllerRuntime) -> bool:
        access = await runtime.get_or_none(*ids.KUBERNETES_ACCESS_CONFIG)
        root = await find_admin_secret(runtime)
        endpoints = await runtime.list(kinds.ENDPOINT)
        addresses = {ip_address(one.ip[:16]) for found in endpoints for one in found.spec.addresses}
        if access is None or not access.spec.enabled or root is None or not addresses:
            return True
        client = self._access.connect(root)
        try:
            for manifest in make_service(addresses):
                await apply(client, await find_place(client, manifest), manifest)
        except KubernetesError as error:
            self._log.once(f"the service of the API is not applied yet: {error}", key="service", level="info")
            return False
        return True


class ServiceAccountController(Controller):
    """KubernetesAccessConfig, OSRootSecret, accounts in Kubernetes → Secrets; on one node at a time."""

    name = "kubeaccess.CRDController"
    inputs = (
        Input(*ids.KUBERNETES_ACCESS_CONFIG),
        Input(*ids.OS_ROOT_SECRET),
        Input(*ids.NODENAME),
        *ADMIN_INPUTS,
    )

    def __init__(self, etcd: EtcdAccess, log: Log) -> None:
        self._etcd = etcd
        self._log = log
        self._access = AdminAccess()
        self._key = b""
        self._scope = trio.CancelScope()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Take part in the election while there is access; begin anew when a secret or the config changes."""
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                access = await runtime.get_or_none(*ids.KUBERNETES_ACCESS_CONFIG)
                root = await find_admin_secret(runtime)
                os_root = await runtime.get_or_none(*ids.OS_ROOT_SECRET)
                nodename = await runtime.get_or_none(*ids.NODENAME)
                found, key = None, b""
                if access and access.spec.enabled and root is not None and os_root and nodename:
                    found = Accounts(access.spec, root, os_root.spec, self._access, self._log)
                    key = found.key + nodename.spec.nodename.encode()
                if key == self._key:
                    continue
                self._key = key
                self._scope.cancel()
                if found is not None and nodename is not None:
                    self._scope = trio.CancelScope()
                    nursery.start_soon(self._take_part, found, nodename.spec.nodename, self._scope)

    async def _take_part(self, accounts: "Accounts", candidate: str, scope: trio.CancelScope) -> None:
        async with trio.open_nursery() as nursery:
            work = trio.CancelScope()

            async def report(is_leader: bool) -> None:
                nonlocal work
                work.cancel()
                if is_leader:
                    work = trio.CancelScope()
                    nursery.start_soon(accounts.keep, work)

            election = Election(ELECTION, candidate, self._etcd.local, report, self._log)
            with scope:
                await election.run()
            nursery.cancel_scope.cancel()


class Accounts:
    """The accounts of a cluster, with one config and one authority."""

    def __init__(
        self, access: ConfigSpec, root: KubernetesRootSpec, os_root: OSRootSpec, admin: AdminAccess, log: Log
    ) -> None:
        self._allowed, self._root, self._os_root = access, root, os_root
        self._admin = admin
        self._log = log

    @property
    def key(self) -> bytes:
        """Differs when anything does that decides what accounts get."""
        parts = (self._allowed, self._root, self._os_root)
        return b"\0".join(part.SerializeToString(deterministic=True) for part in parts)

    async def keep(self, scope: trio.CancelScope) -> None:
        """Follow the accounts; check all of them again every :data:`RENEW_INTERVAL`."""
        with scope:
            began = trio.current_time()
            while True:
                try:
                    with trio.move_on_after(RENEW_INTERVAL):
                        await follow(self._connect, ACCOUNTS, "", self.handle)
                    began = trio.current_time()
                except KubernetesError as error:
                    text = f"the accounts of pods can't be read: {error}"
                    self._log.once(text, key="accounts", level="info")
                    await trio.sleep(find_pause(began, RETRY_INTERVAL))

    def _connect(self) -> KubernetesClient:
        return self._admin.connect(self._root)

    async def handle(self, event: str, account: Mapping[str, Any]) -> None:
        """Bring the secret and the status of an account up to date; KubernetesError without an answer."""
        if event == "DELETED":
            return  # its secret goes with it
        name = f"{account['metadata']['namespace']}/{account['metadata']['name']}"
        try:
            await self._sync(account)
        except KubernetesError as error:
            if not error.status:
                raise
            # Another node may have been faster, or the namespace goes: the next check shows it.
            self._log.once(f"the account {name} is not handled: {error}", key=f"account {name}")

    async def _sync(self, account: Mapping[str, Any]) -> None:
        client, metadata = self._connect(), account["metadata"]
        secrets = f"/api/v1/namespaces/{quote(metadata['namespace'])}/secrets"
        path = f"{secrets}/{quote(metadata['name'])}"
        secret = await client.get_or_none(path)
        refusal = check_account(account, self._allowed)
        if secret is not None and not is_owned(secret, account):
            name = f"{metadata['namespace']}/{metadata['name']}"
            message = f"Secret already exists and is not managed by controller: {name}"
            refusal = Refusal(reason="ErrResourceExists", message=message)
        elif refusal is not None and secret is not None:
            # What it was allowed before is withdrawn.
            await delete(client, path)
        if refusal is not None:
            await self._show(client, account, refusal)
            return
        if secret is None or not is_current(secret, find_roles(account), self._os_root):
            new = make_secret(account, self._os_root)
            if secret is None:
                await client.call("POST", secrets, new)
            else:
                await client.call("PATCH", path, {"data": new["data"]}, kind=MERGE)
            await self._record(client, account, "Normal", "Synced", "Synced successfully")
        await self._show(client, account, None)

    async def _show(
        self, client: KubernetesClient, account: Mapping[str, Any], refusal: Refusal | None
    ) -> None:
        """Write the account's status, and an event when it has changed."""
        message = refusal.message if refusal else None
        status: Mapping[str, Any] = account.get("status") or {}
        if status.get("failureReason") == message:
            return
        namespace, name = (quote(account["metadata"][key]) for key in ("namespace", "name"))
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/{name}"
        await client.call("PATCH", path, {"status": {"failureReason": message}}, kind=MERGE)
        if refusal is not None:
            await self._record(client, account, "Warning", refusal.reason, refusal.message)

    async def _record(
        self, client: KubernetesClient, account: Mapping[str, Any], type: str, reason: str, message: str
    ) -> None:
        metadata, now = account["metadata"], format_now()
        reference = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")}
        event = {
            "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": account["apiVersion"],
                "kind": account["kind"],
                **reference,
            },
            "reason": reason,
            "message": message,
            "type": type,
            "source": {"component": COMPONENT},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await client.call("POST", f"/api/v1/namespaces/{quote(metadata['namespace'])}/events", event)
