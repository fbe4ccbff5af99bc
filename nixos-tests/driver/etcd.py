"""A client of etcd's members on machines, by their JSON gateway: keys that a test writes and reads.

The gateway (https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/) needs nothing but HTTP and TLS.
"""

import base64
import json
import ssl
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from typing import Any

HTTP_PORT = 2383
"""Where members serve health, metrics and the gateway."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The header of an answer."""

    cluster_id: int
    revision: int


class Member:
    """One member, behind a port on loopback; a failure is an AssertionError."""

    def __init__(self, port: int, context: ssl.SSLContext, timeout: float) -> None:
        """``timeout`` is that of one call, in seconds."""
        self._connection = HTTPSConnection("127.0.0.1", port, timeout=timeout, context=context)

    def put(self, key: str, value: str) -> Answer:
        """Write a key; it is acknowledged by the quorum."""
        return _read_header(self._call("put", {"key": _encode(key), "value": _encode(value)}))

    def read(self, key: str) -> tuple[str, Answer]:
        """Read a key through the quorum; empty when there is none."""
        found = self._call("range", {"key": _encode(key)})
        values = [base64.b64decode(pair.get("value", "")).decode() for pair in found.get("kvs", [])]
        return values[0] if values else "", _read_header(found)

    def _call(self, method: str, request: dict[str, str]) -> dict[str, Any]:
        try:
            self._connection.request("POST", f"/v3/kv/{method}", json.dumps(request))
            response = self._connection.getresponse()
            text = response.read()
            assert response.status == 200, f"etcd {method}: {response.status} {text.decode(errors='replace')}"
            return json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            raise AssertionError(f"etcd {method}: {error!r}") from None

    def close(self) -> None:
        """Hang up; the next call connects anew."""
        with suppress(OSError):
            self._connection.close()


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _read_header(answer: dict[str, Any]) -> Answer:
    header = answer["header"]
    return Answer(cluster_id=int(header["cluster_id"]), revision=int(header["revision"]))
