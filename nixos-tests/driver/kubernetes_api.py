"""A client of a machine's API server: objects are read, and applied as `kubectl apply --server-side` does."""

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from driver.client_certificate import make_context

API_SERVER_PORT = 6443
ADMINISTRATORS = "system:masters"
"""The group that may do everything."""
MANAGER = "test"
"""The owner of the fields that a test applies."""

type Object = dict[str, Any]


class KubernetesApi:
    """One API server, behind a port on loopback; a failure is an AssertionError."""

    def __init__(self, port: int, context: ssl.SSLContext, timeout: float) -> None:
        """``timeout`` is that of one call, in seconds."""
        self._port, self._context, self._timeout = port, context, timeout

    def get(self, path: str) -> Object:
        """The object or the list at a path, such as ``/api/v1/nodes``."""
        return self._call("GET", path)

    def apply(self, document: Object) -> Object:
        """Make an object, or change it to this."""
        path = f"{find_path(document)}?fieldManager={MANAGER}&force=true"
        return self._call("PATCH", path, json.dumps(document))

    def _call(self, method: str, path: str, body: str | None = None) -> Object:
        connection = HTTPSConnection("127.0.0.1", self._port, timeout=self._timeout, context=self._context)
        # JSON is YAML, and this type is the one that means an apply.
        headers = {"Content-Type": "application/apply-patch+yaml"} if body else {}
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read()
            assert response.status in (200, 201), (
                f"{method} {path}: {response.status} {text.decode(errors='replace')}"
            )
            return json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            raise AssertionError(f"{method} {path}: {error!r}") from None
        finally:
            connection.close()


def find_path(document: Mapping[str, Any]) -> str:
    """Where an object is, by its kind, whose plural is a regular one."""
    version, kind, metadata = document["apiVersion"], document["kind"].lower(), document["metadata"]
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{group}{namespace}/{plural}/{metadata['name']}"


def open_api(port: int, secrets: Path, folder: Path, timeout: float) -> KubernetesApi:
    """A client with an administrator's certificate, made of the cluster's secrets."""
    context = make_context(secrets, folder, "k8s", organization=ADMINISTRATORS)
    return KubernetesApi(port, context, timeout)
