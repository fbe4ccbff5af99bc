"""The input of the program that verifies signatures: an image, a signature of it, who may have signed."""

import base64
import json
from dataclasses import dataclass, fields
from typing import Any

from talos.system.errors import UserError

BUNDLES = (
    "application/vnd.dev.sigstore.bundle.v0.3+json",
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
)
"""Media types of bundles; older ones may lack what they are verified by."""
PROGRAM = "/usr/sbin/verify-image"
REFUSED = 3
"""Exit code when it is no such signature; the reason is on stderr. Others are defects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``image`` is the bytes of a manifest, ``data`` a bundle; or, with a ``signature``, a signed payload.

    Who may have signed is a public key in PEM; or, without one, an identity of an issuer, as certificates of
    authorities in ``trusted_root`` have it: the ``subject``, or what matches ``subject_regex``, or both.
    """

    image: bytes
    data: bytes
    where: str
    """The place of the signature, for errors."""
    signature: str = ""
    certificate: str = ""
    entry: str = ""
    """The annotations of a signed payload: its signature in base64, certificate in PEM, entry in the log."""
    key: str = ""
    issuer: str = ""
    subject: str = ""
    subject_regex: str = ""
    trusted_root: str = ""


def format_request(request: Request) -> bytes:
    """The program's input."""
    values = {field.name: getattr(request, field.name) for field in fields(request)}
    return json.dumps({name: _encode(value) for name, value in values.items()}).encode()


def _encode(value: str | bytes) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def parse_request(data: bytes) -> Request:
    """A request; UserError."""
    try:
        values: dict[str, Any] = json.loads(data)
        for name in ("image", "data"):
            values[name] = base64.b64decode(values[name], validate=True)
        return Request(**values)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError("is no request", where="stdin") from None
