"""The token with which kubelets join: a Secret of Kubernetes with an end, which is moved on while it is used.

It is made from the node's secrets at the moment it is applied: no resource that a reader may see has it, and
it is no part of the record of applied objects, by which tools would remove it as one that no manifest has.
"""

import base64
import binascii
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, override

import trio

from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.kubed.admin import ADMIN_INPUTS, AdminAccess, find_admin_secret, find_pause
from talos.kubed.manifests.bootstrap import BOOTSTRAPPERS
from talos.kubed.manifests.objects import SYSTEM, make_head
from talos.kubernetes.apply import MANAGER
from talos.kubernetes.client import APPLY, KubernetesClient, KubernetesError
from talos.kubernetes.inventory import identify, read_inventory, write_inventory
from talos.resource.controller.controller import ControllerRuntime, Reconciler
from talos.system.logging import Log

LIFETIME = timedelta(hours=24)
"""Of a token that is not renewed: one that the config has no more, or that of a cluster that is gone."""
RENEWAL_INTERVAL = 3600.0
"""Seconds between two checks of how long it is still valid."""
RETRY_INTERVAL = 2.0
"""Seconds between the first tries while the API server starts or refuses."""
_SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"


class BootstrapTokenController(Reconciler):
    """KubernetesRootSecret → the Secret of the bootstrap token; on control plane nodes."""

    name = "k8s.BootstrapTokenController"
    inputs = ADMIN_INPUTS

    def __init__(self, log: Log) -> None:
        self._log = log
        self._access = AdminAccess()

    @override
    async def reconcile(self, runtime: ControllerRuntime) -> None:
        began = trio.current_time()
        root = await find_admin_secret(runtime)
        while root is not None and not await self._renew(root):
            await runtime.wait_before_retry(find_pause(began, RETRY_INTERVAL))
            root = await find_admin_secret(runtime)
        self.interval = math.inf if root is None else RENEWAL_INTERVAL

    async def _renew(self, root: KubernetesRootSpec) -> bool:
        try:
            await renew_token(self._access.connect(root), root, datetime.now(UTC))
        except KubernetesError as error:
            text = f"the bootstrap token is not renewed: {error}"
            self._log.once(text, key="bootstrap token", level="info")
            return False
        return True


async def renew_token(client: KubernetesClient, root: KubernetesRootSpec, now: datetime) -> None:
    """Make the token's Secret, or move its end on once half of its life is over; KubernetesError."""
    if not root.bootstrap_token_id:
        return
    wanted = make_token(root, now + LIFETIME)
    path = f"{_SECRETS}/{wanted['metadata']['name']}"
    found = await client.get_or_none(path) or {}
    if find_end(found) < now + LIFETIME / 2 or _has_changed(found, wanted):
        await client.call("PATCH", f"{path}?fieldManager={MANAGER}&force=true", wanted, kind=APPLY)
        # Nodes of older releases have recorded it.
        if (own := identify(wanted)) in await read_inventory(client):
            await write_inventory(client, removed=[own])


def make_token(root: KubernetesRootSpec, end: datetime) -> dict[str, Any]:
    """The Secret, as the authenticator of bootstrap tokens reads it.

    https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/#bootstrap-token-secret-format
    """
    data = {
        "token-id": root.bootstrap_token_id,
        "token-secret": root.bootstrap_token_secret,
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": BOOTSTRAPPERS,
        "expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {
        **make_head("v1", "Secret", f"bootstrap-token-{root.bootstrap_token_id}", SYSTEM),
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def find_end(secret: Mapping[str, Any]) -> datetime:
    """Until when a token is valid; the past when it has no end, or none that can be read."""
    try:
        text = base64.b64decode(secret["data"]["expiration"], validate=True).decode()
        return datetime.fromisoformat(text).astimezone(UTC)
    except (LookupError, TypeError, ValueError, OverflowError, binascii.Error):
        return datetime.min.replace(tzinfo=UTC)


def _has_changed(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    data: Mapping[str, Any] = found.get("data") or {}
    return any(data.get(key) != value for key, value in wanted["data"].items() if key != "expiration")
