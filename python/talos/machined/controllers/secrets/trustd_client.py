"""The client of trustd, which signs workers' certificates."""

import functools
import random

import trio

from talos.api.rpc import RpcError
from talos.api.security.security_pb2 import CertificateRequest, CertificateResponse
from talos.machined.controllers.secrets.api_certificates import (
    RemoteSigner,
    SigningRequest,
)
from talos.rpc.bridge import Bridge
from talos.rpc.channel import open_remote
from talos.rpc.port.remote import ClientTls, RemoteServer, make_client_context
from talos.system.backoff import Backoff
from talos.system.errors import UserError

PORT = 50001
METHOD = "/securityapi.SecurityService/Certificate"

_TLS_FAILURES = {
    "certificate is not yet valid": "its certificate is not valid yet: compare its clock with this node's",
    "certificate has expired": "its certificate has expired: compare its clock with this node's",
    "certificate signature failure": "its certificate is not signed by a CA of this node's config",
    "unable to get local issuer certificate": "its certificate is not signed by a CA of this node's config",
    "self-signed certificate": "its certificate is not signed by a CA of this node's config",
    "self signed certificate": "its certificate is not signed by a CA of this node's config",
}
"""Marks in OpenSSL's texts (x509_txt.c)."""

# All in seconds, as upstream.
TOTAL_TIMEOUT = 60.0
ATTEMPT_TIMEOUT = 10.0  # seconds
RETRY_BACKOFF = Backoff(1.0)

MAX_REPLY = 256 * 1024
"""Bytes: a certificate and the accepted CAs."""


class TrustdError(UserError):
    """No control plane node has signed the request; the text is the last one's reason."""


def make_remote_signer(bridge: Bridge, *, port: int = PORT) -> RemoteSigner:
    """A signer that tries the endpoints in turn until one signs, for a minute."""
    return functools.partial(_sign, bridge, port)


async def _sign(bridge: Bridge, port: int, request: SigningRequest) -> bytes:
    endpoints = list(request.endpoints)
    random.shuffle(endpoints)  # spreads the load, not security relevant
    last = "no endpoint"
    with trio.move_on_after(TOTAL_TIMEOUT):
        for delay in RETRY_BACKOFF:
            for endpoint in endpoints:
                try:
                    return await _request(bridge, endpoint, port, request)
                except TrustdError as error:
                    last = str(error)
            await trio.sleep(delay)
    raise TrustdError(f"trustd has not signed the certificate request: {last}")


def explain(details: str) -> str:
    """What OpenSSL's text about a TLS connection that failed means; other texts stay as they are."""
    for mark, reason in _TLS_FAILURES.items():
        if mark in details:
            return reason
    return details


async def _request(bridge: Bridge, endpoint: str, port: int, request: SigningRequest) -> bytes:
    server = RemoteServer(
        host=endpoint,
        port=port,
        context=make_client_context(ClientTls(authorities=request.authorities)),
        max_message=MAX_REPLY,
        keepalive=ATTEMPT_TIMEOUT,
    )
    try:
        async with open_remote(bridge, server) as transport:
            answer = await transport.unary(
                METHOD,
                CertificateRequest(csr=request.csr),
                CertificateResponse,
                metadata={"token": (request.token,)},
                timeout=ATTEMPT_TIMEOUT,
            )
    except RpcError as error:
        raise TrustdError(f"{endpoint}: {error.code.name}: {explain(error.message)}") from None
    return answer.crt
