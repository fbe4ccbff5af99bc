"""The smallest client of the Kubernetes API that serves the node: JSON over HTTP/1.1, one connection a call.

The maintained client for Python takes 60 MB of memory for what is four kinds of request here. Calls block,
so they run in threads; every one has a timeout and a bound on what it reads.
"""

import http.client
import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

import trio

TIMEOUT = 15.0
MAX_PAUSE = 15.0
"""Seconds between two tries, however long the API has not answered."""
MAX_REPLY = 16 << 20
JSON = "application/json"
MERGE = "application/merge-patch+json"


class KubernetesError(Exception):
    """The API refused a request, or could not be reached. ``status`` is 0 without an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the API is and who asks. All PEM."""

    server: str
    authority: bytes
    certificate: bytes
    key: bytes


class KubernetesClient:
    """Calls of the API with one identity."""

    def __init__(self, access: Access) -> None:
        url = urlsplit(access.server)
        self._host, self._port = url.hostname or "", url.port or 443
        self._context = make_context(access)
        self._resources: dict[str, list[dict[str, Any]]] = {}

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, kind: str = JSON
    ) -> dict[str, Any]:
        """One request; KubernetesError when it is refused or the API can't be reached."""
        request = partial(self._call, method, path, None if body is None else json.dumps(body), kind)
        return await trio.to_thread.run_sync(request, abandon_on_cancel=True)

    async def is_ready(self) -> bool:
        """Whether the API answers, and all that it needs to be of use is there."""
        try:
            await self.call("GET", "/readyz")
        except KubernetesError:
            return False
        return True

    async def get_or_none(self, path: str) -> dict[str, Any] | None:
        """One object; none when there is none."""
        try:
            return await self.call("GET", path)
        except KubernetesError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    async def find_collection(self, manifest: Mapping[str, Any]) -> str:
        """The path of the collection that an object belongs to, by asking the API for its kinds."""
        version, kind = str(manifest["apiVersion"]), str(manifest["kind"])
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if not any(found["kind"] == kind for found in self._resources.get(prefix, ())):
            self._resources[prefix] = (await self.call("GET", prefix))["resources"]
        for found in self._resources[prefix]:
            if found["kind"] == kind and "/" not in found["name"]:
                if not found["namespaced"]:
                    return f"{prefix}/{found['name']}"
                namespace = manifest.get("metadata", {}).get("namespace") or "default"
                return f"{prefix}/namespaces/{namespace}/{found['name']}"
        raise KubernetesError(HTTPStatus.NOT_FOUND, f"the API has no {kind} in {version}")

    def _call(self, method: str, path: str, body: str | None, kind: str) -> dict[str, Any]:
        connection = http.client.HTTPSConnection(
            self._host, self._port, timeout=TIMEOUT, context=self._context
        )
        try:
            connection.request(method, path, body, {"Content-Type": kind, "Accept": JSON})
            response = connection.getresponse()
            text = response.read(MAX_REPLY)
        except (OSError, http.client.HTTPException) as error:
            raise KubernetesError(0, f"{self._host}:{self._port}: {error}") from error
        finally:
            connection.close()
        try:
            reply = cast("dict[str, Any]", json.loads(text)) if text else {}
        except ValueError:  # an answer in plain text
            reply = {"message": text[:200].decode(errors="replace")}
        if response.status >= HTTPStatus.BAD_REQUEST:
            message = str(reply.get("message") or HTTPStatus(response.status).phrase)
            raise KubernetesError(response.status, message)
        return reply


def find_pause(began: float, least: float) -> float:
    """Seconds until the next try: a tenth of what has passed since ``began``, on trio's clock.

    So an API that starts is found soon, and one that never comes costs little.
    """
    return min(max(least, (trio.current_time() - began) / 10), MAX_PAUSE)


def make_context(access: Access) -> ssl.SSLContext:
    """TLS 1.3 with a client's certificate; the server's has to be by the authority."""
    context = ssl.create_default_context(cadata=access.authority.decode("ascii"))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # OpenSSL's binding only reads files; this one never touches a disk.
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, access.certificate + b"\n" + access.key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context
