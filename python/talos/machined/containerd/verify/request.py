"""The input of the program that verifies signatures: an image, signatures of it, who may have signed."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from talos.system.errors import UserError

BUNDLES = (
    "application/vnd.dev.sigstore.bundle.v0.3+json",
    "application/vnd.dev.sigstore.bundle+json;version=0.3",
)
"""Media types of bundles; older ones may lack what they are verified by."""
PROGRAM = "/usr/sbin/verify-image"
REFUSED = 3
"""Exit code when there is no such signature. Others than this and 0 are defects."""
MAX_REASON = 300
"""Characters of the reason why a signature is not right."""
_COMMON = ("image", "key", "issuer", "subject", "subject_regex", "trusted_root")
_OWN = ("data", "where", "signature", "certificate", "entry")
"""What requests for one image have in common, and what each signature has."""


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


def format_requests(requests: Sequence[Request]) -> bytes:
    """The program's input, for signatures of one image."""
    common = {name: _encode(getattr(requests[0], name)) for name in _COMMON}
    signatures = [{name: _encode(getattr(one, name)) for name in _OWN} for one in requests]
    return json.dumps({**common, "signatures": signatures}).encode()


def _encode(value: str | bytes) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def parse_requests(data: bytes) -> list[Request]:
    """A request for each signature; UserError."""
    try:
        common: dict[str, Any] = json.loads(data)
        signatures: list[dict[str, Any]] = common.pop("signatures")
        common["image"] = base64.b64decode(common["image"], validate=True)
        for one in signatures:
            one["data"] = base64.b64decode(one["data"], validate=True)
        return [Request(**common, **one) for one in signatures]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError("is no request", where="stdin") from None
