"""Signs the certificate requests of workers that show the machine token. Calls of logins are passed on."""

import hashlib
import hmac
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from google.protobuf.message import DecodeError

from talos.api.methods import split_path
from talos.api.rpc import Code, RpcError
from talos.api.security.security_pb2 import CertificateRequest, CertificateResponse
from talos.pki.authority import Usage
from talos.pki.csr import parse_csr
from talos.rpc.port.call import PortCall
from talos.rpc.port.rates import Rates
from talos.rpc.port.refusals import Refusals
from talos.rpc.protocol import OK, Metadata, Status
from talos.rpc.proxy.raw import receive_one
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.trustd.secrets import Secrets

if TYPE_CHECKING:
    from talos.trustd.login.service import LoginService

SERVICE, METHOD = "securityapi.SecurityService", "Certificate"
LOGIN_SERVICE = "talos.login.LoginService"

REQUESTS_PER_SECOND, BURST = 10.0, 50.0
"""Requests of one client: its address, behind which there may be several nodes."""

WRONG_TOKEN_COST = 10.0
"""A request with a wrong token counts as so many: a token can be guessed once a second."""

MIN_RSA_BITS = 2048
"""Size of an RSA key that a certificate is signed for, as browsers and Go's TLS require."""


class Signer:
    """Answers the calls of trustd's port. ``secrets`` is None until the node has some, ``login`` if off."""

    def __init__(self, log: Log) -> None:
        self.secrets: Secrets | None = None
        self.login: LoginService | None = None
        self._log = log
        self._refusals = Refusals(log)
        self._rates = Rates(REQUESTS_PER_SECOND, BURST)

    async def handle(self, call: PortCall) -> Status:
        """Answer one call."""
        service, method = split_path(call.method)
        if service == LOGIN_SERVICE and self.login is not None:
            return await self.login.handle(call, self._need_secrets())
        if service != SERVICE:
            raise RpcError(Code.UNIMPLEMENTED, f"unknown service {service}")
        if method != METHOD:
            raise RpcError(Code.UNIMPLEMENTED, f"unknown method {method} for service {service}")
        secrets = self._need_secrets()
        if self._rates.take(call.client) > 0:
            self._refusals.record(call.peer.address, "it sends too many requests")
            raise RpcError(Code.RESOURCE_EXHAUSTED, "too many requests, try again later")
        try:
            check_token(call.metadata, secrets.token)
        except RpcError as error:
            self._rates.take(call.client, WRONG_TOKEN_COST - 1)
            self._refusals.record(call.peer.address, error.reason)
            raise
        request = _parse(await receive_one(call))
        reply = self._certificate(request, secrets, call.peer.address)
        await call.send(reply.SerializeToString())
        return OK

    def _need_secrets(self) -> Secrets:
        if self.secrets is None:
            raise RpcError(Code.UNAVAILABLE, "this node has no secrets yet")
        return self.secrets

    def _certificate(self, request: CertificateRequest, secrets: Secrets, peer: str) -> CertificateResponse:
        try:
            csr = parse_csr(request.csr)
            subject, key = csr.subject.rfc4514_string(), csr.public_key()
        except UserError as error:
            raise RpcError(Code.INVALID_ARGUMENT, str(error)) from None
        if isinstance(key, RSAPublicKey) and key.key_size < MIN_RSA_BITS:
            raise RpcError(
                Code.INVALID_ARGUMENT,
                f"the RSA key has {key.key_size} bits instead of {MIN_RSA_BITS}",
            )
        try:
            # Organizations are roles, and a server has none.
            signed = secrets.authority.sign(request.csr, usages=Usage.SERVER, organizations=())
        except (UserError, ValueError) as error:
            self._log.error("signing failed", peer=peer, subject=subject, error=error)
            raise RpcError(Code.INTERNAL, f"failed to sign the certificate request: {error}") from None
        self._log.info("signed a certificate", peer=peer, subject=subject)
        return CertificateResponse(ca=b"".join(secrets.accepted), crt=signed)


def check_token(metadata: Metadata, token: str) -> None:
    """Refuse a caller that does not have the machine token."""
    shown = [value for key, value in metadata if key == "token" and isinstance(value, str)]
    if not shown:
        raise RpcError(Code.UNAUTHENTICATED, "missing token")
    # Digests: the time of the comparison depends on neither length nor content.
    if not token or not hmac.compare_digest(_digest(shown[0]), _digest(token)):
        raise RpcError(Code.UNAUTHENTICATED, "invalid token")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _parse(message: bytes) -> CertificateRequest:
    try:
        return CertificateRequest.FromString(message)
    except DecodeError:
        raise RpcError(Code.INVALID_ARGUMENT, "the request is not a CertificateRequest") from None
