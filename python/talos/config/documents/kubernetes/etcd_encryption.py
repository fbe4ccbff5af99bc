"""``KubeEtcdEncryptionConfig``: how kube-apiserver encrypts what it stores in etcd."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, setting
from talos.config.values import Unstructured


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeEtcdEncryptionConfig(Document):
    """How kube-apiserver encrypts what it stores in etcd."""

    kind: ClassVar[str] = "KubeEtcdEncryptionConfig"

    config: Unstructured | None = setting("the encryption configuration object", secret=True)
