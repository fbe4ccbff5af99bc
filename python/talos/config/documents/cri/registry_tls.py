"""``RegistryTLSConfig``: TLS settings for an image registry."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.documents.certificate import CertificateAndKey
from talos.config.schema import Document, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryTLSConfig(Document):
    """TLS settings for an image registry."""

    kind: ClassVar[str] = "RegistryTLSConfig"
    named: ClassVar[bool] = True

    name: str = setting("registry's host", default="")
    client_identity: CertificateAndKey | None = setting("certificate to authenticate with")
    ca: str | None = setting("authorities to trust")
    insecure_skip_verify: bool | None = setting("do not check the server's certificate")
