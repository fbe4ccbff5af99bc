"""``KubeAPIServerCAConfig``: the certificate authority of the Kubernetes API."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.certificate import CertificateAndKey
from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeAPIServerCAConfig(Document):
    """The certificate authority of the Kubernetes API."""

    kind: ClassVar[str] = "KubeAPIServerCAConfig"

    issuing_ca: CertificateAndKey | None = setting("authority that issues certificates", key="issuingCA")
    accepted_cas: tuple[str, ...] | None = setting(
        "certificates of authorities that are accepted", key="acceptedCAs"
    )
