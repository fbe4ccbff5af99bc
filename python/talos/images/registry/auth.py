"""How a client proves itself to a registry: a password, or a token from the server that the registry names.

https://distribution.github.io/distribution/spec/auth/token/
"""

import base64
import re
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from talos.images.registry.hosts import Credentials, RegistryError
from talos.images.registry.http import (
    Abort,
    Client,
    check_status,
    request,
)
from talos.system.parsed import parse_object

MAX_TOKEN_REPLY = 64 * 1024
MAX_CHALLENGE = 4096
"""Bytes of a reply with a token, and characters of the header that requires one."""
_PAIR = re.compile(r'([a-z_]+)="([^"]*)"')


def authenticate(
    challenge: str,
    credentials: Credentials | None,
    *,
    registry: str,
    client: Client,
    abort: Abort,
) -> str:
    """The value of ``Authorization`` that answers a challenge; RegistryError.

    ``registry`` is the URL that the challenge came from.
    """
    scheme, fields = parse_challenge(challenge)
    match scheme:
        case "basic":
            if credentials is None or not credentials.username:
                raise RegistryError("it requires a password, and none is configured for it", status=401)
            return _make_basic(credentials)
        case "bearer":
            return f"Bearer {_fetch_token(fields, credentials, registry, client, abort)}"
        case _:
            raise RegistryError("it refuses access without saying how to get it", status=401)


def parse_challenge(challenge: str) -> tuple[str, Mapping[str, str]]:
    """The scheme of a challenge in lower case, and its fields; what is not understood is left out."""
    scheme, _, rest = challenge[:MAX_CHALLENGE].strip().partition(" ")
    return scheme.lower(), dict(_PAIR.findall(rest))


def _make_basic(credentials: Credentials) -> str:
    pair = f"{credentials.username}:{credentials.password}".encode()
    return f"Basic {base64.b64encode(pair).decode()}"


def _fetch_token(
    fields: Mapping[str, str],
    credentials: Credentials | None,
    registry: str,
    client: Client,
    abort: Abort,
) -> str:
    realm = urlsplit(fields.get("realm", ""))
    if realm.scheme not in ("http", "https") or not realm.hostname:
        raise RegistryError("it names no server for tokens", status=401)
    if credentials is not None and urlsplit(registry).scheme == "https" and realm.scheme != "https":
        raise RegistryError("its server for tokens takes passwords without encryption", status=401)
    parameters = {name: fields[name] for name in ("service", "scope") if fields.get(name)}
    url, body, method, headers = realm.geturl(), None, "GET", dict[str, str]()
    if credentials is not None and credentials.identity_token:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": credentials.identity_token,
            "client_id": "talos",
        }
        method, body = "POST", urlencode(parameters | form).encode()
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    else:
        url = realm._replace(query="&".join(filter(None, (realm.query, urlencode(parameters))))).geturl()
        if credentials is not None and credentials.username:
            headers["Authorization"] = _make_basic(credentials)
    response = request(url, client=client, headers=headers, abort=abort, method=method, body=body)
    try:
        check_status(response)
        data = response.read_all(MAX_TOKEN_REPLY)
    except RegistryError as error:
        raise RegistryError(
            f"its server for tokens {realm.netloc}: {error}", status=error.status, temporary=error.temporary
        ) from None
    finally:
        response.close()
    return parse_token(data)


def parse_token(data: bytes) -> str:
    """The token in the reply of a server for tokens; RegistryError."""
    fields = parse_object(data)
    token = fields.get("token") or fields.get("access_token")
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
        raise RegistryError("its server for tokens gives none", status=401)
    return token
