"""``OIDCLoginConfig``: certificates of the nodes' API for people of an OpenID Connect issuer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from talos.api.metadata import ADMIN, ETCD_BACKUP, OPERATOR, READER, UPGRADE
from talos.config.schema import Document, Section, setting
from talos.config.values import Duration, Url

LOGIN_ROLES = (ADMIN, OPERATOR, READER, ETCD_BACKUP, UPGRADE)
"""Roles that a login may give: all but that by which a node acts for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OIDCLoginRule(Section):
    """Rules, of which all that match add their roles."""

    claims: Mapping[str, str] | None = setting(
        "claims that the token must have: each is this text, or a list with it", example={"groups": "ops"}
    )
    roles: tuple[str, ...] | None = setting(
        "roles in the certificate", allowed=LOGIN_ROLES, example=(READER,)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OIDCLoginConfig(Document):
    """Certificates of the nodes' API for people of an OpenID Connect issuer."""

    kind: ClassVar[str] = "OIDCLoginConfig"

    issuer: Url | None = setting(
        "the issuer, as tokens name it", schemes=("https",), example="https://id.example.org"
    )
    client_id: str | None = setting(
        "client whose tokens count: their audience", key="clientID", example="talosctl"
    )
    ca: str | None = setting("authorities of the issuer's certificate in PEM (default: the node's)")
    name_claim: str | None = setting("claim with the name in the certificate (default: sub)", example="email")
    scopes: tuple[str, ...] | None = setting(
        "scopes that talosctl requests beside openid", example=("email", "groups")
    )
    certificate_ttl: Duration | None = setting(
        "how long a certificate is valid, from 5m to 24h (default: 1h)", key="certificateTTL", example="1h"
    )
    rules: tuple[OIDCLoginRule, ...] | None = setting("rules, of which all that match add their roles")
