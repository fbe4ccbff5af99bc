"""Tokens of an issuer: which ones count, and which roles they bring. PyJWT reads and verifies them.

Algorithms are pinned: a token chooses among three of public keys, and a key is for the one of its own type.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jwt

from talos.api.rpc import Code, RpcError
from talos.config.effective.login import Login, LoginRule
from talos.system.logging import make_printable

ALGORITHMS = ("RS256", "ES256", "EdDSA")
MAX_TOKEN = 16 * 1024
"""Characters of a token: some issuers put all groups of a person into it."""
MAX_NAME = 64
"""Characters of a common name (RFC 5280, ub-common-name)."""
LEEWAY = 60.0
"""Seconds that the issuer's clock and this one may differ."""
REQUIRED = ("iss", "sub", "aud", "exp", "iat")
_TYPES = ("", "jwt", "at+jwt", "application/at+jwt")
"""Headers ``typ`` of tokens of identity and of access; those of logouts and events are no logins."""
_SHOWN = 200
"""Characters of a reason, which may repeat what the token has."""

type Claims = Mapping[str, Any]


def read_key_id(token: str) -> str:
    """The name of the key that a token is signed with, of its header; empty where it has none. RpcError."""
    if not token:
        raise refuse("there is no token")
    if len(token) > MAX_TOKEN:
        raise refuse(f"the token has more than {MAX_TOKEN} characters")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError) as error:
        raise refuse(f"it is no signed token: {error}") from None
    if header.get("alg") not in ALGORITHMS:
        shown = make_printable(str(header.get("alg")))
        raise refuse(f'the token is signed by "{shown}"; {", ".join(ALGORITHMS)} count')
    if str(header.get("typ") or "").lower() not in _TYPES:
        raise refuse("the token is not one of identity or access: another type is in its header")
    return header.get("kid", "")


def verify(token: str, key: jwt.PyJWK, login: Login) -> Claims:
    """The claims of a token that is the issuer's, for this client, and valid now. RpcError."""
    try:
        claims: Claims = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            audience=login.client_id,
            issuer=login.issuer,
            leeway=LEEWAY,
            options={"require": list(REQUIRED), "enforce_minimum_key_length": True},
        )
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise refuse(f"the token does not count: {error}") from None
    party, audience = claims.get("azp"), claims["aud"]
    # OpenID Connect Core 3.1.3.7: who requested a token is named where it is for several.
    if party is None and audience not in (login.client_id, [login.client_id]):
        raise refuse("the token is for several clients and has no azp")
    if party is not None and party != login.client_id:
        raise refuse("the token was issued to another client: azp")
    return claims


def find_name(claims: Claims, claim: str) -> str:
    """What the certificate is named after. RpcError."""
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        hint = f"a text of up to {MAX_NAME} characters; nameClaim chooses another"
        raise refuse(f'the token\'s claim "{claim}" is no name: {hint}', Code.PERMISSION_DENIED)
    return name


def find_roles(claims: Claims, rules: Sequence[LoginRule]) -> tuple[str, ...]:
    """The roles of all rules that match, sorted. RpcError when there are none."""
    found = {role for rule in rules if _matches(claims, rule.claims) for role in rule.roles}
    if not found:
        raise refuse("no rule of the config matches the token's claims", Code.PERMISSION_DENIED)
    return tuple(sorted(found))


def _matches(claims: Claims, wanted: Mapping[str, str]) -> bool:
    return bool(wanted) and all(_has(claims.get(name), value) for name, value in wanted.items())


def _has(claim: object, value: str) -> bool:
    match claim:
        case bool():
            return value == str(claim).lower()
        case str():
            return claim == value
        case list():
            return value in claim
        case _:
            return False


def refuse(reason: str, code: Code = Code.UNAUTHENTICATED) -> RpcError:
    """The error of a token."""
    return RpcError(code, make_printable(reason)[:_SHOWN])
