"""An issuer of OpenID Connect on the loopback interface: keys, tokens of all kinds, and the device flow."""

import base64
import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, override
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from tests.harness.serving import serving
from tests.harness.tls import make_server_tls

from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.keys import KeyType

CLIENT = "talosctl"
METADATA = "/.well-known/openid-configuration"


@dataclass
class Issuer:
    """``keys`` sign by their names; ``pages`` are its replies by path, ``requests`` their paths."""

    authority: CertificateAuthority
    url: str = ""
    pages: dict[str, bytes] = field(default_factory=dict[str, bytes])
    requests: list[str] = field(default_factory=list[str])
    forms: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    grants: list[tuple[int, dict[str, Any]]] = field(default_factory=list[tuple[int, dict[str, Any]]])
    keys: dict[str, tuple[str, Any]] = field(
        default_factory=lambda: {
            "rsa": ("RS256", rsa.generate_private_key(65537, 2048)),
            "ec": ("ES256", ec.generate_private_key(ec.SECP256R1())),
            "ed": ("EdDSA", ed25519.Ed25519PrivateKey.generate()),
        }
    )

    @property
    def ca(self) -> str:
        """The authority of its certificate, PEM."""
        return self.authority.crt.decode()

    def publish(self) -> None:
        """Show the metadata, and the public keys."""
        metadata = {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "device_authorization_endpoint": f"{self.url}/device",
            "token_endpoint": f"{self.url}/token",
        }
        self.pages[METADATA] = json.dumps(metadata).encode()
        self.pages["/keys"] = json.dumps({"keys": [self.jwk(name) for name in self.keys]}).encode()

    def jwk(self, name: str) -> dict[str, Any]:
        """A public key as its set has it."""
        algorithm, key = self.keys[name]
        made: Any = jwt.get_algorithm_by_name(algorithm)
        return {**made.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig", "alg": algorithm}

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Claims of a good token; None takes one away."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": "1", "aud": CLIENT, "iat": now, "nbf": now, "exp": now + 300}
        claims |= {"email": "ann@example.org", "groups": ["ops", "all"]}
        return {name: value for name, value in (claims | changes).items() if value is not None}

    def token(self, key: str = "ec", *, headers: dict[str, Any] | None = None, **changes: Any) -> str:
        """A signed token."""
        algorithm, private = self.keys[key]
        return jwt.encode(self.claims(**changes), private, algorithm, headers={"kid": key, **(headers or {})})


def encode_part(value: object) -> str:
    """A part of a token that no library would make."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@contextmanager
def serve_issuer(folder: Path, *, host: str = "127.0.0.1") -> Generator[Issuer]:
    """A running issuer with a certificate of its own authority."""
    issuer = Issuer(CertificateAuthority.generate(KeyType.P256, organizations=["issuer"]))
    pair = issuer.authority.issue(ips=[host], usages=Usage.SERVER)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requests.append(self.path)
            body = issuer.pages.get(self.path)
            self.reply(404 if body is None else 200, body or b"")

        def do_POST(self) -> None:
            issuer.requests.append(self.path)
            issuer.forms.append(
                dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            )
            status, reply = issuer.grants.pop(0)
            self.reply(status, json.dumps(reply).encode())

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    with serving(server, make_server_tls(folder, pair)):
        issuer.url = f"https://{host}:{server.server_address[1]}"
        issuer.publish()
        yield issuer
