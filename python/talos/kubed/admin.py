"""This node's own access to the Kubernetes API, as an administrator, and how often it is tried."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import trio

from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.config.static_pods import API_SERVER
from talos.kubed.controllers.certificates import ADMIN, MASTERS, load_authority
from talos.kubernetes.access import ClusterAccess
from talos.kubernetes.client import KubernetesClient, Reply
from talos.pki.authority import Usage
from talos.pki.certificate import join_certificates
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input

LIFETIME = timedelta(minutes=10)
"""As upstream: what is made for each use need not be renewed."""
SKEW = timedelta(minutes=1)
MAX_RETRY_INTERVAL = 15.0
"""Seconds between two tries, however long the API has not answered."""


ADMIN_INPUTS = (Input(*ids.KUBERNETES_ROOT_SECRET), Input(kinds.STATIC_POD, API_SERVER))
"""What a controller has to declare that uses :func:`find_admin_secret`."""


async def find_admin_secret(runtime: ControllerRuntime) -> KubernetesRootSpec | None:
    """The secrets by which this node's API server is called, once its pod is offered."""
    root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
    pod = await runtime.get_or_none(kinds.STATIC_POD, API_SERVER)
    return root.spec if root is not None and pod is not None else None


class AdminAccess:
    """A client that is kept while its certificate has more than half of its life left."""

    def __init__(self) -> None:
        self._client: KubernetesClient | None = None
        self._root = b""
        self._until = 0.0

    def connect(self, root: KubernetesRootSpec) -> KubernetesClient:
        """The client for these secrets."""
        secret = root.SerializeToString(deterministic=True)
        if self._client is None or secret != self._root or trio.current_time() > self._until:
            self._client, self._root = connect_admin(root), secret
            self._until = trio.current_time() + LIFETIME.total_seconds() / 2
        return self._client


def connect_admin(root: KubernetesRootSpec, server: str = "") -> KubernetesClient:
    """A client of this node's API server, or another, with a certificate that is valid for minutes."""
    pair = load_authority(root).issue(
        common_name=ADMIN,
        organizations=[MASTERS],
        ttl=LIFETIME,
        usages=Usage.CLIENT,
        key_encipherment=True,
        not_before=datetime.now(UTC) - SKEW,
    )
    authority = join_certificates(root.accepted_c_as)
    server = server or root.local_endpoint.full_path
    access = ClusterAccess(server=server, authority=authority, certificate=pair.crt, key=pair.key)
    return KubernetesClient(access, call_in_thread)


async def call_in_thread(request: Callable[[], Reply]) -> Reply:
    """Have one of trio's threads call the API; a call without a waiter ends by itself."""
    return await trio.to_thread.run_sync(request, abandon_on_cancel=True)


def find_pause(began: float, minimum: float) -> float:
    """Seconds until the next try: a tenth of what has passed since ``began``, on trio's clock.

    So an API that starts is found soon, and one that never comes costs little.
    """
    return min(max(minimum, (trio.current_time() - began) / 10), MAX_RETRY_INTERVAL)
