"""trustd on the loopback interface, with a config that lets people of an issuer log in."""

# Stubs of gRPC have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography import x509
from google.protobuf.message import Message
from tests.harness.issuer import CLIENT, Issuer
from tests.harness.limits import REAL_TIMEOUT

from talos.api.definitions import secrets_pb2 as secrets
from talos.api.login.login_pb2 import ExchangeReply, ExchangeRequest
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import parse_certificate
from talos.pki.csr import make_csr
from talos.pki.keys import KeyType, make_key
from talos.system.logging import Log
from talos.trustd.server import LIMITS, TrustServer

PATH = "/talos.login.LoginService/"
RULES = """
    - claims: {groups: ops}
      roles: ["os:operator", "os:etcd:backup"]
    - claims: {groups: all, email_verified: "true"}
      roles: ["os:reader"]
"""


def make_config(issuer: Issuer, rules: str = RULES, more: str = "") -> MachineConfigSpec:
    ca = issuer.ca.replace("\n", "\n    ")
    head = f"apiVersion: v1alpha1\nkind: OIDCLoginConfig\nissuer: {issuer.url}\nclientID: {CLIENT}\n"
    text = f"{head}nameClaim: email\nca: |\n    {ca}\n{more}\nrules:{rules}"
    return MachineConfigSpec(yaml_marshalled=text.encode())


class Door:
    """A running trustd."""

    def __init__(self, port: int, ca: CertificateAuthority, server: TrustServer, lines: list[str]) -> None:
        self.port, self.ca, self.server, self.lines = port, ca, server, lines
        self.key = make_key(KeyType.ED25519)

    async def exchange(self, token: str, csr: bytes | None = None) -> x509.Certificate:
        request = ExchangeRequest(token=token, csr=make_csr(self.key) if csr is None else csr)
        return parse_certificate((await self.call("Exchange", request, ExchangeReply)).crt)

    async def call[R: Message](self, method: str, request: Message, reply: type[R]) -> R:
        credentials = grpc.ssl_channel_credentials(self.ca.crt)
        async with grpc.aio.secure_channel(f"127.0.0.1:{self.port}", credentials) as channel:
            answer = await channel.unary_unary(PATH + method)(
                request.SerializeToString(), timeout=REAL_TIMEOUT
            )
        return reply.FromString(answer)

    async def refuse(self, token: str, csr: bytes | None = None) -> tuple[str, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.exchange(token, csr)
        return caught.value.code().name, caught.value.details() or ""

    def records(self) -> list[dict[str, Any]]:
        return [record for line in self.lines if (record := json.loads(line))["msg"] == "audit"]


@asynccontextmanager
async def open_door(config: MachineConfigSpec | None) -> AsyncGenerator[Door]:
    lines: list[str] = []
    # gRPC's client leaves connections that have ended for a moment.
    limits = replace(LIMITS, connections_per_client=64)
    server = TrustServer(Log(write=lines.append), limits=limits)
    ca = CertificateAuthority.generate(KeyType.ED25519, organizations=["talos"])
    pair = ca.issue(ips=["127.0.0.1"], usages=Usage.SERVER)
    certificate = secrets.TrustdCertsSpec()
    certificate.server.crt, certificate.server.key = pair.crt, pair.key
    server.set_certificate(certificate)
    root = secrets.OSRootSpec(token="token")
    root.issuing_ca.crt, root.issuing_ca.key = ca.pem.crt, ca.pem.key
    root.accepted_c_as.add(crt=ca.crt)
    server.set_root(root)
    server.set_config(config)
    try:
        yield Door(server.start(0, "127.0.0.1"), ca, server, lines)
    finally:
        await server.stop(0.2)
