"""The smallest client of the Kubernetes API that serves us: JSON over HTTP/1.1, one connection a call.

The maintained client for Python takes 60 MB of memory for what is four kinds of request here. Calls block,
so they run in threads, trio's on a node and asyncio's in talosctl; every one has a timeout and a bound on
what it reads. What an API server that stops leaves undone is asked for again, by the rules of client-go
(rest/with_retry.go): any request that is refused for now, and a GET whose connection ends without an answer.
"""

import asyncio
import http.client
import json
import os
import ssl
import time
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import yaml

from talos.system.errors import UserError

TIMEOUT = 15.0
MAX_REPEATS = 3
"""Of a request that an API server which stops has not taken; the next server gets it, if there is one."""
MAX_PAUSE = 5.0
"""Seconds that such an API server may ask for before a request is repeated."""
MAX_REPLY = 16 << 20
POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts what a pod's account needs."""
JSON = "application/json"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

_ENDED = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)
"""How a connection ends that an API server which stops had accepted."""

type Reply = dict[str, Any]
type InThread = Callable[[Callable[[], Reply]], Awaitable[Reply]]
"""Calls a function in a thread: trio's or asyncio's."""


class KubernetesError(Exception):
    """The API refused a request, or could not be reached. ``status`` is 0 without an answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the API is and who asks: by a certificate, or by a token's file. All but the token is PEM."""

    server: str
    authority: bytes
    certificate: bytes = b""
    key: bytes = b""
    token: Path | None = None


def parse_kubeconfig(text: str) -> Access:
    """The access of an administrator's kubeconfig, as nodes issue it; ValueError when it is another one."""
    try:
        document = yaml.safe_load(text)
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        return Access(
            server=cluster["server"],
            authority=b64decode(cluster["certificate-authority-data"]),
            certificate=b64decode(user["client-certificate-data"]),
            key=b64decode(user["client-key-data"]),
        )
    except (yaml.YAMLError, LookupError, TypeError) as error:
        raise ValueError(f"not an administrator's kubeconfig: {error}") from error


def find_pod_access(folder: Path = POD_FOLDER) -> Access:
    """The access of the pod that this runs in, as its account; UserError outside of one."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    try:
        authority = (folder / "ca.crt").read_bytes()
    except OSError:
        authority = b""
    if not host or not authority:
        raise UserError("this is no pod with an account", where=str(folder))
    host = f"[{host}]" if ":" in host else host
    return Access(server=f"https://{host}:{port or 443}", authority=authority, token=folder / "token")


class KubernetesClient:
    """Calls of the API with one identity."""

    def __init__(self, access: Access, in_thread: InThread = asyncio.to_thread) -> None:
        self._in_thread, self._access = in_thread, access
        url = urlsplit(access.server)
        self._host, self._port = url.hostname or "", url.port or 443
        self._context = make_context(access)
        self._resources: dict[str, list[dict[str, Any]]] = {}

    def at(self, server: str) -> "KubernetesClient":
        """A client with the same identity at another URL."""
        return KubernetesClient(replace(self._access, server=server), self._in_thread)

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, kind: str = JSON
    ) -> Reply:
        """One request; KubernetesError when it is refused or the API can't be reached."""
        return await self._in_thread(partial(self.call_now, method, path, body, kind=kind))

    async def is_ready(self) -> bool:
        """Whether the API answers, and all that it needs to be of use is there."""
        try:
            await self.call("GET", "/readyz")
        except KubernetesError:
            return False
        return True

    async def get_or_none(self, path: str) -> Reply | None:
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
            reply = await self.get_or_none(prefix)
            self._resources[prefix] = reply["resources"] if reply is not None else []
        for found in self._resources[prefix]:
            if found["kind"] == kind and "/" not in found["name"]:
                if not found["namespaced"]:
                    return f"{prefix}/{found['name']}"
                namespace = manifest.get("metadata", {}).get("namespace") or "default"
                return f"{prefix}/namespaces/{namespace}/{found['name']}"
        raise KubernetesError(HTTPStatus.NOT_FOUND, f"the API has no {kind} in {version}")

    def open(self, seconds: float = TIMEOUT) -> http.client.HTTPSConnection:
        """A connection that is not made yet, on which nothing takes longer than ``seconds``."""
        return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=self._context)

    @property
    def headers(self) -> dict[str, str]:
        """What every request begins with. A pod's token is another one every hour; KubernetesError."""
        path = self._access.token
        if path is None:
            return {"Accept": JSON}
        try:
            token = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise KubernetesError(0, f"{path}: {error}") from error
        return {"Accept": JSON, "Authorization": f"Bearer {token}"}

    async def read_text(self, path: str) -> str:
        """An answer that is no JSON, such as metrics; KubernetesError, also when it is too long."""

        def read() -> Reply:
            status, answer = self._request("GET", path)
            text = answer.decode(errors="replace")
            if status >= HTTPStatus.BAD_REQUEST:
                raise KubernetesError(status, text[:200])
            if len(answer) >= MAX_REPLY:
                raise KubernetesError(0, f"{path} has more than {MAX_REPLY >> 20} MiB")
            return {"text": text}

        return str((await self._in_thread(read))["text"])

    def call_now(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, kind: str = JSON
    ) -> Reply:
        """The same as :meth:`call` in the caller's thread."""
        status, answer = self._request(method, path, body, kind=kind, accept=JSON)
        try:
            reply = cast("Reply", json.loads(answer)) if answer else {}
        except ValueError:  # an answer in plain text
            reply = {"message": answer[:200].decode(errors="replace").strip()}
        if status >= HTTPStatus.BAD_REQUEST:
            message = str(reply.get("message") or HTTPStatus(status).phrase)
            raise KubernetesError(status, message)
        return reply

    def _request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        kind: str = JSON,
        accept: str = "*/*",
    ) -> tuple[int, bytes]:
        headers = self.headers | {"Content-Type": kind, "Accept": accept}
        send = partial(self._send, method, path, None if body is None else json.dumps(body), headers)
        try:
            for _ in range(MAX_REPEATS):
                try:
                    status, answer, pause = send()
                except _ENDED:
                    if method != "GET":
                        raise
                    continue
                if pause is None:
                    return status, answer
                time.sleep(pause)
            status, answer, _ = send()
        except (OSError, http.client.HTTPException) as error:
            raise KubernetesError(0, f"{self._host}:{self._port}: {error}") from error
        return status, answer

    def _send(
        self, method: str, path: str, text: str | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes, float | None]:
        """One request: its status, its body, and the seconds to wait if it is to be repeated."""
        connection = self.open()
        try:
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            return response.status, response.read(MAX_REPLY), _find_pause(response)
        finally:
            connection.close()


def _find_pause(response: http.client.HTTPResponse) -> float | None:
    """The seconds to wait before a refused request is repeated; none when it need not be."""
    asked = response.headers.get("Retry-After", "")
    if response.status != HTTPStatus.SERVICE_UNAVAILABLE or not asked.isdecimal():
        return None
    return min(float(asked), MAX_PAUSE)


def make_context(access: Access) -> ssl.SSLContext:
    """TLS 1.3, with a client's certificate if there is one; the server's has to be by the authority."""
    context = ssl.create_default_context(cadata=access.authority.decode("ascii"))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not access.certificate:
        return context
    # OpenSSL's binding only reads files; this one never touches a disk.
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, access.certificate + b"\n" + access.key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context
