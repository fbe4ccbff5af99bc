"""The client of trustd, which signs workers' certificates."""

import functools
import random

import trio

from talos.api.security.security_pb2 import CertificateRequest, CertificateResponse
from talos.machined.controllers.secrets.api_certificates import (
    RemoteSigner,
    SignedCertificate,
    SigningRequest,
)
from talos.rpc.bridge import Bridge, HostCancelledError
from talos.rpc.target import make_target
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
"""Marks in grpc's texts, which quote OpenSSL (x509_txt.cc)."""

# All in seconds, as upstream.
TOTAL_TIMEOUT = 60.0
ATTEMPT_TIMEOUT = 10.0
RETRY_UNIT = 1.0


class TrustdError(UserError):
    """No control plane node has signed the request; the text is the last one's reason."""


def make_remote_signer(bridge: Bridge, *, port: int = PORT) -> RemoteSigner:
    """A signer that tries the endpoints in turn until one signs, for a minute."""
    return functools.partial(_sign, bridge, port)


async def _sign(bridge: Bridge, port: int, request: SigningRequest) -> SignedCertificate:
    endpoints = list(request.endpoints)
    random.shuffle(endpoints)  # spreads the load, not security relevant
    last = "no endpoint"
    wait = RETRY_UNIT
    with trio.move_on_after(TOTAL_TIMEOUT):
        while True:
            for endpoint in endpoints:
                try:
                    return await bridge.call(_ask, endpoint, port, request)
                except TrustdError as error:
                    last = str(error)
                except HostCancelledError:
                    last = f"{endpoint}: cancelled"
            await trio.sleep(wait)
            wait *= 2
    raise TrustdError(f"trustd has not signed the certificate request: {last}")


def explain(details: str) -> str:
    """What grpc's text about a TLS connection that failed means; other texts stay as they are."""
    for mark, reason in _TLS_FAILURES.items():
        if mark in details:
            return reason
    return details


async def _ask(endpoint: str, port: int, request: SigningRequest) -> SignedCertificate:
    import grpc.aio  # 10 MiB that only workers need

    credentials = grpc.ssl_channel_credentials(b"\n".join(request.authorities))
    async with grpc.aio.secure_channel(make_target(endpoint, port), credentials) as channel:
        sign = channel.unary_unary(
            METHOD, CertificateRequest.SerializeToString, CertificateResponse.FromString
        )
        try:
            answer = await sign(
                CertificateRequest(csr=request.csr),
                metadata=(("token", request.token),),
                timeout=ATTEMPT_TIMEOUT,
            )
        except grpc.aio.AioRpcError as error:
            reason = explain(error.details() or "")
            raise TrustdError(f"{endpoint}: {error.code().name}: {reason}") from None
    return SignedCertificate(certificate=answer.crt, authorities=answer.ca)
