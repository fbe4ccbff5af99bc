"""Logins: who shows a token of the config's issuer gets a client certificate of a short life.

The port has it only while the config has an ``OIDCLoginConfig``. A caller chooses nothing but the key: name,
roles and life are the config's and the token's.
"""

from datetime import timedelta

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import DecodeError

from talos.api.login.login_pb2 import DescribeReply, ExchangeReply, ExchangeRequest
from talos.api.methods import split_path
from talos.api.rpc import Code, RpcError
from talos.config.effective.login import Login
from talos.pki.authority import Usage
from talos.pki.certificate import parse_certificate
from talos.pki.csr import parse_csr
from talos.process.audit import Audit
from talos.rpc.port.call import PortCall
from talos.rpc.port.rates import Rates
from talos.rpc.port.refusals import Refusals
from talos.rpc.protocol import OK, Status
from talos.rpc.proxy.raw import receive_one
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.trustd.login import tokens
from talos.trustd.login.keys import IssuerKeys
from talos.trustd.secrets import Secrets
from talos.trustd.signer import LOGIN_SERVICE

REQUESTS_PER_SECOND, BURST = 1.0, 20.0
"""Requests of one address, behind which there may be several people."""
REFUSAL_COST = 4.0
"""Requests that one with a wrong token counts as."""


class LoginService:
    """Trades tokens by the settings ``login``."""

    def __init__(self, login: Login, log: Log, *, keys: IssuerKeys | None = None) -> None:
        self._login = login
        self._log = log
        self._keys = keys or IssuerKeys(login.issuer, login.ca, log)
        self._audit = Audit(log)
        self._refusals = Refusals(log)
        self._rates = Rates(REQUESTS_PER_SECOND, BURST)

    async def handle(self, call: PortCall, secrets: Secrets) -> Status:
        """Answer one call."""
        method = split_path(call.method)[1]
        if method not in {"Describe", "Exchange"}:
            raise RpcError(Code.UNIMPLEMENTED, f"unknown method {method} for service {LOGIN_SERVICE}")
        if self._rates.take(call.client) > 0:
            self._refusals.record(call.peer.address, "it sends too many requests")
            raise RpcError(Code.RESOURCE_EXHAUSTED, "too many requests, try again later")
        message = await receive_one(call)
        if method == "Describe":
            await call.send(self._describe().SerializeToString())
            return OK
        try:
            reply = await self._exchange(call, message, secrets)
        except RpcError as error:
            self._rates.take(call.client, REFUSAL_COST - 1)
            self._record(call, result=error.code.name)
            self._refusals.record(call.peer.address, error.reason)
            raise
        await call.send(reply.SerializeToString())
        return OK

    def _describe(self) -> DescribeReply:
        login = self._login
        return DescribeReply(issuer=login.issuer, client_id=login.client_id, scopes=login.scopes, ca=login.ca)

    async def _exchange(self, call: PortCall, message: bytes, secrets: Secrets) -> ExchangeReply:
        request = _parse(message)
        key = _read_key(request.csr)
        login = self._login
        claims = tokens.verify(request.token, await self._keys.find(tokens.read_key_id(request.token)), login)
        name, roles = tokens.find_name(claims, login.name_claim), tokens.find_roles(claims, login.rules)
        crt = secrets.authority.certify(
            key, common_name=name, organizations=roles, ttl=timedelta(seconds=login.ttl), usages=Usage.CLIENT
        )
        self._record(call, name=name, roles=roles)
        certificate = parse_certificate(crt)
        self._log.info(
            "issued a client certificate",
            peer=call.peer.address,
            name=name,
            subject=claims["sub"],
            roles=roles,
            serial=f"{certificate.serial_number:x}",
            until=certificate.not_valid_after_utc.isoformat(),
        )
        return ExchangeReply(ca=b"".join(secrets.accepted), crt=crt)

    def _record(
        self, call: PortCall, *, name: str = "", roles: tuple[str, ...] = (), result: str = Code.OK.name
    ) -> None:
        address = call.peer.address
        self._audit.record(
            call.client, method=call.method, peer=address, name=name, roles=roles, nodes=(), result=result
        )


def _parse(message: bytes) -> ExchangeRequest:
    try:
        return ExchangeRequest.FromString(message)
    except DecodeError:
        raise RpcError(Code.INVALID_ARGUMENT, "the request is not an ExchangeRequest") from None


def _read_key(csr: bytes) -> EllipticCurvePublicKey | Ed25519PublicKey:
    """The key of a request, which its signature shows the caller to have."""
    try:
        key = parse_csr(csr).public_key()
    except UserError as error:
        raise RpcError(Code.INVALID_ARGUMENT, str(error)) from None
    if not isinstance(key, EllipticCurvePublicKey | Ed25519PublicKey):
        raise RpcError(Code.INVALID_ARGUMENT, "the key is neither of an elliptic curve nor Ed25519")
    return key
