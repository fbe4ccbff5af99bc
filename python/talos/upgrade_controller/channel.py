"""A channel: an image whose tag moves from release to release, and whose manifest carries the signed release.

Nothing but the manifest is fetched. What the tag means is accepted only with a signature of a given key, and
nodes are sent to the digest that was checked, so that a tag that moves meanwhile changes nothing.
"""

import hashlib
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from talos.system.errors import UserError
from talos.system.parsed import as_object, parse_object
from talos.upgrade.release.archive import read_annotations
from talos.upgrade.release.manifest import ReleaseManifest, parse_release
from talos.upgrade.release.signature import verify
from talos.upgrade_controller.credentials import ANONYMOUS, Credentials

UNAUTHORIZED = 401
TIMEOUT = 30.0
"""Seconds of a request."""
MAX_MANIFEST = 1 << 20
MAX_TOKEN = 64 << 10
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ARCHITECTURE = "amd64"
_REFERENCE = re.compile(
    r"(?P<host>[A-Za-z0-9.-]*[.:][A-Za-z0-9.:-]*|localhost)/(?P<name>[a-z0-9._/-]+)(?::(?P<tag>[\w.-]{1,128}))?",
    re.ASCII,
)
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelRelease:
    """What a channel offers. ``image`` is the release by its digest."""

    manifest: ReleaseManifest
    image: str
    digest: str


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Manifests come from the registry itself, and so do tokens from the place that it names."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        """Follow none."""


class AnsweredError(UserError):
    """The registry refuses. ``challenge`` is what it requires of a client without credentials."""

    def __init__(self, error: urllib.error.HTTPError, where: str) -> None:
        super().__init__(f"the registry answers {error.code} {error.reason}", where=where)
        self.challenge = error.headers.get("WWW-Authenticate", "") if error.code == UNAUTHORIZED else ""


def read_channel(
    image: str, keys: Sequence[Ed25519PublicKey], *, endpoint: str = "", credentials: Credentials = ANONYMOUS
) -> ChannelRelease:
    """What the tag means now; UserError when it can't be fetched or is not signed by one of the keys.

    ``endpoint`` is a mirror's URL, which is called instead of the image's own registry; the credentials are
    those of the host that is called.
    """
    found = _REFERENCE.fullmatch(image)
    if found is None:
        hint = "write it like registry.example.org/installer:stable"
        raise UserError(f"{image!r} is no image with its registry's host", where="channel.image", hint=hint)
    host, name, tag = found["host"], found["name"], found["tag"] or "latest"
    base, query = endpoint.rstrip("/") or f"https://{host}", f"?ns={host}" if endpoint else ""
    url = urllib.parse.urlsplit(base)
    registry = _Registry(f"{base}/v2/{name}", query, credentials.find(url.netloc), where=f"channel {image}")
    data, document = registry.fetch(tag)
    entries: object = document.get("manifests")
    if isinstance(entries, list):
        data, document = registry.fetch(_choose(cast("list[object]", entries), registry.where))
    notes = as_object(document.get("annotations"))
    texts = {key: value for key, value in notes.items() if isinstance(value, str)}
    manifest, signature = read_annotations(texts, registry.where)
    verify(manifest, signature, keys)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return ChannelRelease(manifest=parse_release(manifest), image=f"{host}/{name}@{digest}", digest=digest)


def _choose(entries: Sequence[object], where: str) -> str:
    for entry in map(as_object, entries):
        platform, digest = as_object(entry.get("platform")), entry.get("digest")
        if isinstance(digest, str) and platform.get("architecture", ARCHITECTURE) == ARCHITECTURE:
            return digest
    raise UserError(f"has no image for {ARCHITECTURE}", where=where)


class _Registry:
    """One repository of a registry, read anonymously, or by ``user`` as a header has it.

    The user's name goes to the registry, or to the server of tokens that it names.
    """

    def __init__(self, base: str, query: str, user: str, *, where: str) -> None:
        self.where = where
        self._query = query
        self._base = base
        self._user, self._authorization = user, ""
        handlers = [NoRedirect(), urllib.request.HTTPSHandler(context=ssl.create_default_context())]
        self._opener = urllib.request.build_opener(*handlers)

    def fetch(self, what: str) -> tuple[bytes, dict[str, Any]]:
        """A manifest or an index by tag or digest, as bytes and as a document."""
        headers = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
        url = f"{self._base}/manifests/{what}{self._query}"
        try:
            data = self._get(url, headers, MAX_MANIFEST)
        except AnsweredError as error:
            self._authorization = self._answer(error)
            data = self._get(url, headers, MAX_MANIFEST)
        if ":" in what and f"sha256:{hashlib.sha256(data).hexdigest()}" != what:
            raise UserError(f"what the registry gives as {what} is something else", where=self.where)
        document = parse_object(data)
        if not document:
            raise UserError("the registry gives no manifest", where=self.where)
        return data, document

    def _answer(self, error: AnsweredError) -> str:
        """The header that the registry requires; the error itself when there is none to give."""
        scheme, _, challenge = error.challenge.partition(" ")
        if self._authorization or scheme.lower() not in ("basic", "bearer"):
            raise error
        if self._user and urllib.parse.urlsplit(self._base).scheme != "https":
            # Who stands in the path would get it, or name a server for tokens that does.
            raise UserError(
                "the registry wants a password over a connection that is not safe", where=self.where
            )
        if scheme.lower() == "bearer":
            return f"Bearer {self._fetch_token(challenge)}"
        if not self._user:
            raise error
        return self._user

    def _fetch_token(self, challenge: str) -> str:
        values: dict[str, str] = {found[1]: found[2] for found in _PARAMETER.finditer(challenge)}
        realm = values.pop("realm", "")
        if urllib.parse.urlsplit(realm).scheme != "https":
            raise UserError("the registry wants a token from no https URL", where=self.where)
        url = f"{realm}?{urllib.parse.urlencode(values)}"
        try:
            user = {"Authorization": self._user} if self._user else {}
            fields = parse_object(self._get(url, user, MAX_TOKEN))
        except (AnsweredError, ValueError):
            fields = {}
        token = fields.get("token") or fields.get("access_token")
        if not isinstance(token, str) or not token.isprintable():
            reason = "refuses this user a token" if self._user else "gives no token without a user"
            raise UserError(f"the registry {reason}", where=self.where)
        return token

    def _get(self, url: str, headers: Mapping[str, str], maximum: int) -> bytes:
        more = {"Authorization": self._authorization} if self._authorization else {}
        request = urllib.request.Request(url, headers={**more, **headers})  # noqa: S310 - http and https only
        try:
            with self._opener.open(request, timeout=TIMEOUT) as reply:
                data: bytes = reply.read(maximum + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise AnsweredError(error, self.where) from None
        except (OSError, HTTPException, ValueError) as error:  # the first of which urllib's are
            reason = getattr(error, "reason", "") or repr(error)
            raise UserError(f"the registry does not answer: {reason}", where=self.where) from None
        if len(data) > maximum:
            raise UserError(f"the registry sends more than {maximum} bytes", where=self.where)
        return data
