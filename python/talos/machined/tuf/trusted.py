"""What a node trusts of Sigstore's TUF repository: kept in STATE, the input and the output of a refresh."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from talos.system.errors import UserError
from talos.system.parsed import parse_object

PROGRAM = "/usr/sbin/refresh-trusted-root"
REFUSED = 3
"""Its exit code when the repository can't be reached or is refused; then there is one line on stderr."""
MAX_TRUSTED = 1024 * 1024
"""Bytes of all files in JSON. Sigstore's have 20 KiB."""
MAX_REASON = 300
"""Characters of that line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedMetadata:
    """Files of the repository that were verified last, and each is empty until it is fetched."""

    root: str = ""
    timestamp: str = ""
    snapshot: str = ""
    targets: str = ""
    trusted_root: str = ""
    version: int = 0
    """Of the targets that list the ``trusted_root``."""
    refreshed: int = 0
    """Seconds since the epoch: when the ``trusted_root`` was found to be the newest."""


def format_trusted(trusted: TrustedMetadata) -> bytes:
    """The files in JSON."""
    return json.dumps(asdict(trusted)).encode()


def parse_trusted(data: bytes, where: str) -> TrustedMetadata:
    """The files in JSON; UserError."""
    return _make_trusted(parse_object(data), where)


def _make_trusted(part: Mapping[str, Any], where: str) -> TrustedMetadata:
    default = asdict(TrustedMetadata())
    if part.keys() != default.keys() or any(type(part[key]) is not type(default[key]) for key in default):
        raise UserError("has no trusted files of a repository", where=where)
    return TrustedMetadata(**part)


def format_request(trusted: TrustedMetadata, environment: Mapping[str, str]) -> bytes:
    """The program's input: what was trusted before, and the environment, which may name a proxy."""
    return json.dumps({"trusted": asdict(trusted), "environment": dict(environment)}).encode()


def parse_request(data: bytes) -> tuple[TrustedMetadata, Mapping[str, str]]:
    """UserError."""
    where = "stdin"
    part = parse_object(data)
    trusted, environment = part.get("trusted"), part.get("environment")
    if not isinstance(trusted, dict) or not isinstance(environment, dict):
        raise UserError("is no request", where=where)
    return _make_trusted(cast("dict[str, Any]", trusted), where), cast("dict[str, str]", environment)
