"""What an OpenID Connect issuer publishes: objects in JSON, its metadata first."""

import json
from collections.abc import Callable
from typing import Any

from talos.process.fetch import FetchError
from talos.system.parsed import as_object

METADATA = "/.well-known/openid-configuration"
"""Below the issuer's URL (OpenID Connect Discovery 1.0, section 4)."""

type Fetch = Callable[[str], bytes]
"""What a URL has. It blocks. FetchError, NotThereError."""


def fetch_metadata(issuer: str, get: Fetch) -> dict[str, Any]:
    """Where the issuer's other parts are. It blocks. FetchError, NotThereError."""
    return fetch_object(issuer.rstrip("/") + METADATA, get)


def fetch_object(url: str, get: Fetch) -> dict[str, Any]:
    """One of its objects. It blocks. FetchError, NotThereError."""
    try:
        return as_object(json.loads(get(url)))
    except (ValueError, RecursionError):
        raise FetchError("it replied something else than an object in JSON") from None
