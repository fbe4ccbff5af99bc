"""The effective settings of logins with tokens of an OpenID Connect issuer."""

from collections.abc import Mapping
from dataclasses import dataclass

from talos.config.documents.security.oidc_login import OIDCLoginConfig
from talos.config.model import Config

MIN_TTL, DEFAULT_TTL, MAX_TTL = 300.0, 3600.0, 24 * 3600.0
"""Seconds that a certificate may be valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRule:
    """A user whose token has all these claims gets these roles."""

    claims: Mapping[str, str]
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Whose tokens count, and what they are traded for. ``ca`` is PEM; ``ttl`` is in seconds."""

    issuer: str
    client_id: str
    ca: str
    name_claim: str
    scopes: tuple[str, ...]
    ttl: float
    rules: tuple[LoginRule, ...]


def login(config: Config) -> Login | None:
    """The settings; None where the config has none."""
    chosen = config.find(OIDCLoginConfig)
    if chosen is None:
        return None
    return Login(
        issuer=str(chosen.issuer or ""),
        client_id=chosen.client_id or "",
        ca=chosen.ca or "",
        name_claim=chosen.name_claim or "sub",
        scopes=chosen.scopes or (),
        ttl=chosen.certificate_ttl.seconds if chosen.certificate_ttl else DEFAULT_TTL,
        rules=tuple(
            LoginRule(claims=rule.claims or {}, roles=rule.roles or ()) for rule in chosen.rules or ()
        ),
    )
