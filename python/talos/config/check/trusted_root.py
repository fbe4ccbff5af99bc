"""Checks of ``SigstoreTrustedRootConfig``: all that a node reads of it before it verifies a signature."""

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric import ed25519

from talos.config.check.forms import check_present
from talos.config.check.note import Note
from talos.config.documents.security.sigstore_trusted_root import SigstoreTrustedRootConfig
from talos.config.model import Config
from talos.pki.certificate import parse_certificates
from talos.pki.keys import PublicKey, parse_public_key
from talos.system.errors import UserError
from talos.system.parsed import as_object, parse_object
from talos.system.urls import find_host

_MAX_SIZE = 1024 * 1024
"""Bytes; that of the public instance has 7 KiB."""
_TYPE = "application/vnd.dev.sigstore.trustedroot"
"""How its media type begins, before the version."""
_AUTHORITIES, _LOGS = "certificateAuthorities", ("tlogs", "ctlogs")
_TIMESTAMPS = "timestampAuthorities"
"""Signatures in logs of Rekor 2 have their time from one; those in logs of Rekor 1 need none."""
_HINT = "the content of trusted_root.json"

type _Part = Mapping[str, Any]


def check_trusted_root(document: SigstoreTrustedRootConfig) -> Iterator[Note]:
    """Its form, its certificates and keys. Places within the text stand before what is wrong there."""
    text, at = document.trusted_root, Note.at(document, "trustedRoot")
    yield from check_present(text, at, hint=_HINT)
    if not text:
        return
    if len(text.encode()) > _MAX_SIZE:
        yield at.find(f"has more than {_MAX_SIZE} bytes", hint=_HINT)
        return
    found = parse_object(text)
    if not str(found.get("mediaType")).startswith(_TYPE):
        yield at.find("is no trusted root of Sigstore in JSON", hint=_HINT)
        return
    for key in (_AUTHORITIES, *_LOGS):
        if not isinstance(found.get(key), list) or not found[key]:
            yield at.find(
                f"has no {key}: no signature would count", hint="it takes authorities and both logs"
            )
    for key in (_AUTHORITIES, _TIMESTAMPS):
        for place, part in _list_parts(found, key):
            yield from _check_authority(part, place, at)
    for key in _LOGS:
        yield from _check_logs(found, key, at)


def find_trusted_root_warnings(config: Config, now: datetime | None = None) -> Iterator[Note]:
    """What has no part left that counts today, and logs of Rekor 2 without the host that they are at."""
    document = config.find(SigstoreTrustedRootConfig)
    if document is None or len(text := document.trusted_root or "") > _MAX_SIZE:
        return
    found, now, at = parse_object(text), now or datetime.now(UTC), Note.at(document, "trustedRoot")
    for key in (_AUTHORITIES, _TIMESTAMPS, *_LOGS):
        ends = [_find_end(part, key) for _, part in _list_parts(found, key)]
        past = [end for end in ends if end is not None and end < now]
        signed = "timestamps" if key == _TIMESTAMPS else "signatures"
        if past and len(past) == len(ends):
            yield at.find(
                f"all {key} ended by {max(past):%Y-%m-%d}: only older {signed} count",
                hint="bring trusted_root.json of its TUF repository up to date",
            )
    for place, log in _list_parts(found, "tlogs"):
        if isinstance(_parse_key(log), ed25519.Ed25519PublicKey) and not find_host(str(log.get("baseUrl"))):
            text = f"{place}.baseUrl names no host: if it is of Rekor 2, its entries don't count"
            yield at.find(text, hint="such as https://log2025-1.rekor.sigstore.dev")


def _check_authority(part: _Part, place: str, at: Note) -> Iterator[Note]:
    certificates = _list_parts(as_object(part.get("certChain")), "certificates")
    if not certificates:
        yield at.find(f"{place}.certChain.certificates is empty", hint=_HINT)
    for inner, one in certificates:
        name = f"{place}.certChain.{inner}.rawBytes"
        if not _is_base64(one.get("rawBytes")):
            yield at.find(f"{name} is not in base64", hint=_HINT)
        elif not _parse_certificates(one):
            yield at.find(f"{name} is no certificate", hint=_HINT)
    yield from _check_period(part, place, at)


def _check_logs(found: _Part, key: str, at: Note) -> Iterator[Note]:
    """A node leaves out logs with keys of kinds that it lacks; one it needs."""
    parts = _list_parts(found, key)
    is_usable = False
    for place, part in parts:
        public = as_object(part.get("publicKey"))
        values = {
            "publicKey.rawBytes": public.get("rawBytes"),
            "logId.keyId": as_object(part.get("logId")).get("keyId"),
        }
        for name, value in values.items():
            if not _is_base64(value):
                yield at.find(f"{place}.{name} is not in base64", hint=_HINT)
        yield from _check_period(public, f"{place}.publicKey", at)
        is_usable = is_usable or _parse_key(part) is not None
    if parts and not is_usable:
        yield at.find(f"{key} has no key that can be used", hint="ECDSA, Ed25519 or RSA, in DER and base64")


def _check_period(part: _Part, place: str, at: Note) -> Iterator[Note]:
    period = as_object(part.get("validFor"))
    for key in ("start", "end"):
        value = period.get(key)
        if (value is not None or key == "start") and _parse_time(value) is None:
            hint = "such as 2025-05-05T12:00:00Z"
            yield at.find(f"{place}.validFor.{key} is no time with a zone", hint=hint)


def _find_end(part: _Part, key: str) -> datetime | None:
    """When an authority or a log ends; None where there is no end, or it can't be read."""
    if key in _LOGS:
        return _parse_time(as_object(as_object(part.get("publicKey")).get("validFor")).get("end"))
    ends = [_parse_time(as_object(part.get("validFor")).get("end"))]
    for _, one in _list_parts(as_object(part.get("certChain")), "certificates"):
        ends += [certificate.not_valid_after_utc for certificate in _parse_certificates(one)]
    return min((end for end in ends if end is not None), default=None)


def _list_parts(part: _Part, key: str) -> list[tuple[str, _Part]]:
    """The objects of a list, each with its place."""
    value: object = part.get(key)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [(f"{key}[{index}]", as_object(item)) for index, item in enumerate(items)]


def _is_base64(value: object) -> bool:
    try:
        return bool(base64.b64decode(cast("str", value), validate=True))
    except (TypeError, ValueError):
        return False


def _parse_key(log: _Part) -> PublicKey | None:
    try:
        return parse_public_key(_make_pem("PUBLIC KEY", as_object(log.get("publicKey")).get("rawBytes")))
    except UserError:
        return None


def _parse_certificates(part: _Part) -> list[Any]:
    """The certificate of a part; empty where it can't be read."""
    try:
        return parse_certificates(_make_pem("CERTIFICATE", part.get("rawBytes")))
    except UserError:
        return []


def _make_pem(label: str, value: object) -> bytes:
    return f"-----BEGIN {label}-----\n{value}\n-----END {label}-----\n".encode()


def _parse_time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
