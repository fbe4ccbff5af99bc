"""``KubeServiceAccountConfig``: keys and issuers of service account tokens."""

from dataclasses import dataclass
from typing import ClassVar

from talos.config.schema import Document, Section, setting
from talos.config.values import Url


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerServiceAccountConfig(Section):
    """Issuers of tokens."""

    private_key: str = setting("key that signs tokens, PEM", default="", secret=True)
    issuer_url: Url = setting(
        "URL named in tokens", key="issuerURL", default=Url(""), schemes=("http", "https")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedServiceAccountConfig(Section):
    """What is accepted beside."""

    public_keys: tuple[str, ...] | None = setting("public keys in PEM")
    issuers: tuple[Url, ...] | None = setting("URLs of issuers", schemes=("http", "https"))
    audiences: tuple[str, ...] | None = setting("audiences of the API")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeServiceAccountConfig(Document):
    """Keys and issuers of service account tokens."""

    kind: ClassVar[str] = "KubeServiceAccountConfig"

    issuer: IssuerServiceAccountConfig = setting("issuer of tokens", default=IssuerServiceAccountConfig())
    accepted: AcceptedServiceAccountConfig | None = setting("further accepted keys and issuers")
