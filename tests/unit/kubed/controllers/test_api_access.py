"""Access of pods to the nodes' API: what the config allows, and the secret that each account gets."""

from typing import Any, cast, override

import pytest
import trio
import trio.testing
from tests.unit.kubernetes.twin import Twin

from talos.api.definitions.kubeaccess_pb2 import ConfigSpec
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec, OSRootSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.kubed.controllers.api_access import AccessConfigController, Accounts
from talos.kubernetes.client import KubernetesError
from talos.pki.authority import CertificateAuthority
from talos.pki.keys import KeyType
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

ACCESS = ConfigSpec(enabled=True, allowed_api_roles=["os:reader"], allowed_kubernetes_namespaces=["default"])
SECRET = "/api/v1/namespaces/default/secrets/one"
ACCOUNT = "/apis/talos.dev/v1alpha1/namespaces/default/serviceaccounts/one"


class Api(Twin):
    """The API with one account. Events have generated names: their reasons are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    @override
    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        if path.endswith("/events"):
            self.reasons.append(body["reason"])
            return {}
        if path == ACCOUNT:
            self.objects[ACCOUNT]["status"] = body["status"]
            return self.objects[ACCOUNT]
        return await super().call(method, path, body, **options)

    def give(self, *roles: str) -> dict[str, Any]:
        metadata = {"name": "one", "namespace": "default", "uid": "1", "resourceVersion": "7"}
        head = {"apiVersion": "talos.dev/v1alpha1", "kind": "ServiceAccount", "metadata": metadata}
        before = self.objects.get(ACCOUNT, {}).get("status", {})
        self.objects[ACCOUNT] = {**head, "spec": {"roles": list(roles)}, "status": before}
        return self.objects[ACCOUNT]


class Admin:
    """Access to one API."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def connect(self, _root: KubernetesRootSpec) -> Api:
        return self._api


@pytest.fixture(scope="module")
def os_root() -> OSRootSpec:
    pair = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"]).pem
    root = OSRootSpec()
    root.issuing_ca.crt, root.issuing_ca.key = pair.crt, pair.key
    return root


def make_accounts(api: Api, os_root: OSRootSpec, lines: list[str]) -> Accounts:
    log = Log(write=lines.append)
    return Accounts(ACCESS, KubernetesRootSpec(), os_root, cast("Any", Admin(api)), log)


async def test_a_secret_is_made_kept_and_withdrawn(os_root: OSRootSpec) -> None:
    api = Api()
    accounts = make_accounts(api, os_root, [])
    await accounts.handle("ADDED", api.give("os:reader"))
    secret = api.objects[SECRET]
    await accounts.handle("MODIFIED", api.give("os:reader"))
    assert api.objects[SECRET] == secret, "one that is current stays"
    assert api.reasons == ["Synced"]
    for _ in range(2):
        await accounts.handle("MODIFIED", api.give("os:admin"))
        assert SECRET not in api.objects
        assert api.objects[ACCOUNT]["status"] == {"failureReason": "Roles not allowed: [os:admin]"}
    assert api.reasons == ["Synced", "ErrRolesNotAllowed"], "an event only when the status changes"
    await accounts.handle("MODIFIED", api.give("os:reader"))
    assert SECRET in api.objects
    assert api.objects[ACCOUNT]["status"] == {"failureReason": None}


async def test_a_secret_of_another_user_stays(os_root: OSRootSpec) -> None:
    api = Api()
    theirs = {"metadata": {"name": "one"}, "data": {"config": "eA=="}}
    api.objects[SECRET] = theirs
    await make_accounts(api, os_root, []).handle("ADDED", api.give("os:admin"))
    assert api.objects[SECRET] == theirs
    assert api.reasons == ["ErrResourceExists"]


async def test_a_refusal_of_the_api_ends_no_other_account(
    os_root: OSRootSpec,
) -> None:
    api, lines = Api(), list[str]()
    accounts = make_accounts(api, os_root, lines)
    status = 403

    def refuse(_method: str, _path: str) -> None:
        raise KubernetesError(status, "no")

    api.refuse = refuse
    await accounts.handle("ADDED", api.give("os:reader"))
    assert "the account default/one is not handled: no" in lines[0]
    status = 0
    with pytest.raises(KubernetesError):
        await accounts.handle("ADDED", api.give("os:reader"))
    await accounts.handle("DELETED", api.give("os:reader"))


CLUSTER = "cluster: {controlPlane: {endpoint: https://10.0.0.1:6443}}\n"
FEATURE = """\
  features:
    kubernetesTalosAPIAccess:
      enabled: true
      allowedRoles: [os:reader]
      allowedKubernetesNamespaces: [monitoring]
"""
DOCUMENT = """\
---
apiVersion: v1alpha1
kind: KubeTalosAPIAccessConfig
allowedRoles: [os:admin]
allowedKubernetesNamespaces: [kube-system]
"""


@pytest.mark.parametrize(
    ("config", "access"),
    [
        (f"machine:\n  type: controlplane\n{CLUSTER}", ConfigSpec()),
        (
            f"machine:\n  type: controlplane\n{FEATURE}{CLUSTER}",
            ConfigSpec(
                enabled=True, allowed_api_roles=["os:reader"], allowed_kubernetes_namespaces=["monitoring"]
            ),
        ),
        (
            f"machine:\n  type: controlplane\n{CLUSTER}{DOCUMENT}",
            ConfigSpec(
                enabled=True, allowed_api_roles=["os:admin"], allowed_kubernetes_namespaces=["kube-system"]
            ),
        ),
        (f"machine:\n  type: worker\n{FEATURE}{CLUSTER}", None),
    ],
    ids=["none", "feature", "document", "worker"],
)
async def test_the_config_of_a_control_plane_node_decides_who_has_access(
    config: str, access: ConfigSpec | None
) -> None:
    state = MemoryState()
    text = f"version: v1alpha1\n{config}"
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))
    async with trio.open_nursery() as nursery:
        await nursery.start(run_controllers, state, [AccessConfigController()])
        await trio.testing.wait_all_tasks_blocked()
        found = [resource.spec for resource in await state.list(kinds.KUBERNETES_ACCESS_CONFIG)]
        assert found == ([] if access is None else [access])
        nursery.cancel_scope.cancel()
