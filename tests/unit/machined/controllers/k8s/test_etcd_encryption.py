"""How the API server encrypts what lies in etcd, as a resource and as its file."""

from typing import Any

import pytest
import yaml
from google.protobuf.struct_pb2 import Struct
from tests.unit.machined.controllers.running import running

from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.machined.controllers.k8s.etcd_encryption import EtcdEncryptionConfigController
from talos.resource import ids
from talos.resource.changes import put, wait_for
from talos.resource.memory.state import MemoryState

IDENTITY: dict[str, Any] = {"identity": {}}
OWN: dict[str, Any] = {"resources": [{"resources": ["secrets"], "providers": [IDENTITY]}]}


def make_configured() -> KubernetesRootSpec:
    struct = Struct()
    struct.update(OWN)
    return KubernetesRootSpec(secretbox_encryption_secret="unused", etcd_encryption_config=struct)


def make_keys(kind: str, name: str, secret: str) -> dict[str, Any]:
    return {kind: {"keys": [{"name": name, "secret": secret}]}}


@pytest.mark.parametrize(
    ("root", "providers"),
    [
        (KubernetesRootSpec(), [IDENTITY]),
        (
            KubernetesRootSpec(secretbox_encryption_secret="s", aescbc_encryption_secret="a"),
            [make_keys("secretbox", "key2", "s"), make_keys("aescbc", "key1", "a"), IDENTITY],
        ),
        (make_configured(), [IDENTITY]),
    ],
    ids=["plain", "keys", "configured"],
)
async def test_the_resource_has_the_api_servers_file(
    root: KubernetesRootSpec, providers: list[dict[str, Any]]
) -> None:
    state = MemoryState()
    await put(state, *ids.KUBERNETES_ROOT_SECRET, root)
    async with running(state, EtcdEncryptionConfigController()):
        found = await wait_for(state, *ids.ETCD_ENCRYPTION_CONFIG, lambda _: True)
    assert yaml.safe_load(found.spec.configuration) == {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers}],
    }
