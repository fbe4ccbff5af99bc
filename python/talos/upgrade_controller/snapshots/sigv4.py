"""AWS Signature Version 4: a request's ``Authorization``.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from talos.system.errors import UserError

ALGORITHM, SERVICE, END = "AWS4-HMAC-SHA256", "s3", "aws4_request"
PROFILE = "default"
TIME = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """Who signs. ``token`` belongs to keys that expire."""

    id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is signed. Names of ``headers`` are in lower case, ``digest`` is the body's SHA-256 in hex."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    digest: str


def parse_access_key(data: bytes, *, where: str) -> AccessKey:
    """The key of a file as ``~/.aws/credentials``; UserError, without what is in the file."""
    found, is_profile = dict[str, str](), False
    # Nodes and their images have no configparser.
    for line in map(str.strip, data.decode(errors="replace").splitlines()):
        if line.startswith("["):
            is_profile = line == f"[{PROFILE}]"
        elif is_profile and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[name.strip()] = value.strip()
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    texts = name, secret, token = [found.get(name, "") for name in names]
    if not (name and secret) or not all(text.isascii() and text.isprintable() for text in texts):
        hint = f"write [{PROFILE}], and below it {names[0]} = … and {names[1]} = …"
        raise UserError("has no key", where=where, hint=hint)
    return AccessKey(id=name, secret=secret, token=token)


def format_query(query: Mapping[str, str]) -> str:
    """A query in the order and with the escapes in which it is signed."""
    pairs = sorted((quote(key, safe=""), quote(value, safe="")) for key, value in query.items())
    return "&".join(f"{key}={value}" for key, value in pairs)


def format_path(path: str) -> str:
    """A path with the escapes in which it is signed."""
    return quote(path, safe="/")


def sign(request: Request, key: AccessKey, *, region: str, now: datetime) -> str:
    """The value of ``Authorization``."""
    time = now.strftime(TIME)
    scope = "/".join((time[:8], region, SERVICE, END))
    names = sorted(request.headers)
    canonical = "\n".join(
        (
            request.method,
            format_path(request.path),
            format_query(request.query),
            *(f"{name}:{request.headers[name].strip()}" for name in names),
            "",
            ";".join(names),
            request.digest,
        )
    )
    text = "\n".join((ALGORITHM, time, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    signer = f"AWS4{key.secret}".encode()
    for part in (*scope.split("/"), text):
        signer = hmac.digest(signer, part.encode(), "sha256")
    return f"{ALGORITHM} Credential={key.id}/{scope},SignedHeaders={';'.join(names)},Signature={signer.hex()}"
