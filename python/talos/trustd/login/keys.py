"""The public keys of an issuer, fetched from it when they are needed, and kept for some minutes."""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import cast
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm

from talos.api.rpc import Code, RpcError
from talos.process.fetch import FetchBounds, FetchError, NotThereError, fetch
from talos.process.issuer import Fetch, fetch_metadata, fetch_object
from talos.system.logging import Log
from talos.system.parsed import as_object
from talos.trustd.login.tokens import ALGORITHMS, refuse

BOUNDS = FetchBounds(max_bytes=256 * 1024, timeout=10.0, silence=5.0)
MAX_KEYS = 64
MAX_RSA_BITS = 8192
FRESH_TTL = 600.0
"""Seconds for which keys are used before they are fetched again."""
STALE_TTL = 3600.0
"""Seconds after which they are not used any more, even when the issuer can't be reached."""
FETCH_INTERVAL = 15.0
"""Seconds between two fetches at least, whatever names of keys the tokens of clients have."""
_TYPES = frozenset({"RSA", "EC", "OKP"})
_MEMBERS = ("kty", "n", "e", "crv", "x", "y", "kid", "use", "alg")
"""Members of a public key that are read: not private parts, certificates and their addresses."""

type Keys = Mapping[str, jwt.PyJWK]


class IssuerKeys:
    """The keys of one issuer by their names. ``ca`` is PEM, empty for the node's own authorities."""

    def __init__(
        self,
        issuer: str,
        ca: str,
        log: Log,
        *,
        get: Fetch | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._log = log
        self._get: Fetch = get or partial(_fetch, ca)
        self._now = now
        self._keys: Keys = {}
        self._fetched = self._tried = -STALE_TTL
        self._failure = ""
        self._lock = asyncio.Lock()

    async def find(self, name: str) -> jwt.PyJWK:
        """The key of this name. RpcError: the issuer has none, or does not answer."""
        await self._refresh(lambda: not self._has(name) or self._age() > FRESH_TTL)
        if self._age() > STALE_TTL:
            raise RpcError(Code.UNAVAILABLE, f"the issuer's keys can't be had: {self._failure}")
        # A token may leave the name out where there is only one key.
        key = self._keys.get(name) if name or len(self._keys) != 1 else next(iter(self._keys.values()))
        if key is None:
            raise refuse("the token is signed with a key that the issuer does not have")
        return key

    def _has(self, name: str) -> bool:
        return name in self._keys or (not name and len(self._keys) == 1)

    def _age(self) -> float:
        return self._now() - self._fetched

    async def _refresh(self, is_needed: Callable[[], bool]) -> None:
        async with self._lock:
            if not is_needed() or self._now() - self._tried < FETCH_INTERVAL:
                return
            self._tried = self._now()
            try:
                self._keys = await asyncio.to_thread(fetch_keys, self._issuer, self._get)
            except (FetchError, NotThereError) as error:
                self._failure = str(error)
                self._log.warning("can't fetch the issuer's keys", issuer=self._issuer, reason=self._failure)
                return
            self._fetched = self._now()


def _fetch(ca: str, url: str) -> bytes:
    return fetch(url, bounds=BOUNDS, authorities=ca).data


def fetch_keys(issuer: str, get: Fetch) -> Keys:
    """The keys that an issuer's metadata lead to. It blocks. FetchError, NotThereError."""
    metadata = fetch_metadata(issuer, get)
    if metadata.get("issuer") != issuer:
        raise FetchError("its metadata name another issuer")
    url = metadata.get("jwks_uri")
    if not isinstance(url, str) or urlsplit(url).scheme != "https":
        raise FetchError("its metadata have no jwks_uri by https")
    listed = fetch_object(url, get).get("keys")
    if not isinstance(listed, list) or len(cast("list[object]", listed)) > MAX_KEYS:
        raise FetchError(f"its keys are no list, or more than {MAX_KEYS}")
    keys: dict[str, jwt.PyJWK] = {}
    for item in cast("list[object]", listed):
        if (key := _read_key(item)) is not None:
            keys.setdefault(key.key_id or "", key)
    if not keys:
        raise FetchError(f"it has no key for {', '.join(ALGORITHMS)}")
    return keys


def _read_key(item: object) -> jwt.PyJWK | None:
    """A key for signatures by one of the algorithms; None for all others, which an issuer may have, too."""
    members = as_object(item)
    data = {name: members[name] for name in _MEMBERS if isinstance(members.get(name), str)}
    if data.get("kty") not in _TYPES or data.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(data)
    except (jwt.PyJWTError, UnsupportedAlgorithm, ValueError, TypeError, KeyError):
        return None
    if key.algorithm_name not in ALGORITHMS or getattr(key.key, "key_size", 0) > MAX_RSA_BITS:
        return None
    return key
