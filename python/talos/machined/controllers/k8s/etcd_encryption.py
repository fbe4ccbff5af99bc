"""EtcdEncryptionConfig: how the API server encrypts what lies in etcd."""

from typing import Any

import yaml

from talos.api.definitions.k8s_pb2 import EtcdEncryptionConfigSpec
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import to_plain


class EtcdEncryptionConfigController(Reconciler):
    """KubernetesRootSecret → EtcdEncryptionConfig, the file of the API server."""

    name = "k8s.EtcdEncryptionConfigController"
    inputs = (Input(*ids.KUBERNETES_ROOT_SECRET),)
    outputs = (Output(kinds.ETCD_ENCRYPTION_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, on nodes that have the secrets."""
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        async with runtime.track_outputs():
            if root is not None:
                text = yaml.safe_dump(make_encryption(root.spec))
                await runtime.put(*ids.ETCD_ENCRYPTION_CONFIG, EtcdEncryptionConfigSpec(configuration=text))


def make_encryption(root: KubernetesRootSpec) -> dict[str, Any]:
    """How secrets lie in etcd: as configured, else by the keys of the cluster's secrets."""
    if root.HasField("etcd_encryption_config"):
        return {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            **to_plain(root.etcd_encryption_config),
        }
    providers: list[dict[str, Any]] = []
    for kind, name, secret in (
        ("secretbox", "key2", root.secretbox_encryption_secret),
        ("aescbc", "key1", root.aescbc_encryption_secret),
    ):
        if secret:
            providers.append({kind: {"keys": [{"name": name, "secret": secret}]}})
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [*providers, {"identity": {}}]}],
    }
