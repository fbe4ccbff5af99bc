"""The check of the document by which people of an issuer get certificates."""

from collections.abc import Iterator

from talos.config.check.forms import check_pem, check_present
from talos.config.check.note import Check, Note
from talos.config.documents.security.oidc_login import OIDCLoginConfig
from talos.config.effective.login import MAX_TTL, MIN_TTL


def _oidc_login(document: OIDCLoginConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_present(document.issuer, at.below("issuer"), hint="such as https://id.example.org")
    if document.issuer and any(mark in document.issuer for mark in "?#@"):
        yield at.below("issuer").find("has more than host, port and path", hint="the text of the claim iss")
    yield from check_present(document.client_id, at.below("clientID"), hint="such as talosctl")
    if document.ca is not None:
        yield from check_pem(document.ca, at.below("ca"))
    for index, scope in enumerate(document.scopes or ()):
        if not scope or not scope.isascii() or not scope.isprintable() or " " in scope:
            yield at.below(f"scopes[{index}]").find("is no scope", hint="such as email or groups")
    ttl = document.certificate_ttl
    if ttl and not MIN_TTL <= ttl.seconds <= MAX_TTL:
        yield at.below("certificateTTL").find(f'"{ttl}" is out of range', hint="from 5m to 24h")
    yield from check_present(document.rules, at.below("rules"), hint="without one no certificate is issued")
    for index, rule in enumerate(document.rules or ()):
        place = at.below(f"rules[{index}]")
        # A rule without claims would be for everybody who has an account at the issuer.
        yield from check_present(rule.claims, place.below("claims"), hint="such as groups: ops")
        yield from check_present(rule.roles, place.below("roles"), hint="such as os:reader")
        for name, value in (rule.claims or {}).items():
            if not name or not value:
                yield place.below(f"claims[{name}]").find("is empty", hint="a claim and its value")


CHECKS: dict[str, Check] = {"OIDCLoginConfig": _oidc_login}
