"""ApiCertificatesController: the certificates of the node's API."""

import ipaddress
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import trio

from talos.api.common import common_pb2 as common
from talos.api.definitions import secrets_pb2 as secrets
from talos.api.metadata import IMPERSONATOR
from talos.config.active import read_config
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import secrets as effective_secrets
from talos.machined.controllers.secrets.certificates import (
    TRUSTD_ANSWER,
    addresses_of,
    check_clocks,
    check_signed,
    is_clock_plausible,
    is_current,
    is_issued_by,
    to_proto,
)
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import certificate_to_pem, parse_certificate
from talos.pki.csr import make_csr
from talos.pki.keys import KeyType, key_to_pem, make_key, parse_key
from talos.process.renewal import CHECK_INTERVAL, RenewingReconciler
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output
from talos.system.backoff import Backoff

REQUEST_BACKOFF = Backoff(1.0, CHECK_INTERVAL)
"""Seconds before a worker requests a certificate of its issuing CA again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningRequest:
    """A worker's request to the control plane to sign ``csr``."""

    endpoints: tuple[str, ...]
    authorities: tuple[bytes, ...]
    token: str
    csr: bytes


type RemoteSigner = Callable[[SigningRequest], Awaitable[bytes]]
"""Returns the signed certificate as PEM."""


class ApiCertificatesController(RenewingReconciler):
    """OSRootSecret or MaintenanceRootSecret, CertSAN → ApiCertificate.

    A control plane node issues a server and a client certificate by itself. A worker has
    its server certificate signed by trustd, and gets none to call other nodes with.
    In maintenance no client certificate is requested; the key stays the same all the time, since
    people compare its fingerprint.
    """

    name: ClassVar[str] = "secrets.APIController"
    inputs = (
        Input(*ids.OS_ROOT_SECRET),
        Input(*ids.MAINTENANCE_ROOT_SECRET),
        Input(kinds.CERT_SAN),
        Input(*ids.TIME_STATUS),
        Input(kinds.ENDPOINT),
        Input(*ids.MACHINE_CONFIG),
    )
    outputs = (Output(kinds.API_CERTIFICATE),)

    def __init__(self, sign: RemoteSigner) -> None:
        self._sign = sign
        self._issuing = b""
        self._request_due = -math.inf  # trio's clock
        self._request_intervals = iter(REQUEST_BACKOFF)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Issue the certificates, or new ones when they are due."""
        self.interval = math.inf
        root = await runtime.get_or_none(*ids.OS_ROOT_SECRET)
        if root is None:
            await self._maintain(runtime)
            return
        sans = await runtime.get_or_none(*ids.CERT_SAN_API)
        if sans is None or not await is_clock_plausible(runtime, root.spec.issuing_ca.crt):
            await _end_maintenance(runtime)
            return
        if root.spec.issuing_ca.key:
            await self._issue(runtime, root.spec, sans.spec)
        else:
            await self._request(runtime, root.spec, sans.spec)

    async def _maintain(self, runtime: ControllerRuntime) -> None:
        """Issue regardless of the clock, which may be wrong; clients don't verify the certificate."""
        root = await runtime.get_or_none(*ids.MAINTENANCE_ROOT_SECRET)
        sans = await runtime.get_or_none(*ids.CERT_SAN_MAINTENANCE)
        if root is None or sans is None:
            await runtime.remove(*ids.API_CERTIFICATE)
            return
        authority, names = root.spec.ca, sans.spec

        def change(spec: secrets.APICertsSpec) -> None:
            if spec.skip_verifying_client_cert and is_current(spec.server, names, [authority.crt]):
                return
            key = parse_key(spec.server.key) if spec.skip_verifying_client_cert else make_key(KeyType.P256)
            csr = make_csr(key, common_name=names.fqdn, dns_names=names.dns_names, ips=addresses_of(names))
            ca = CertificateAuthority.from_pem(
                authority.crt, authority.key, where="the authority of this boot"
            )
            spec.Clear()
            spec.server.crt, spec.server.key = ca.sign(csr, usages=Usage.SERVER), key_to_pem(key)
            spec.skip_verifying_client_cert = True

        await runtime.modify(*ids.API_CERTIFICATE, change)

    async def _issue(
        self, runtime: ControllerRuntime, root: secrets.OSRootSpec, sans: secrets.CertSANSpec
    ) -> None:
        issuing = root.issuing_ca

        def change(spec: secrets.APICertsSpec) -> None:
            authority = CertificateAuthority.from_pem(issuing.crt, issuing.key, where="machine.ca")
            if not is_current(spec.server, sans, [issuing.crt]):
                server = authority.issue(
                    common_name=sans.fqdn,
                    dns_names=sans.dns_names,
                    ips=addresses_of(sans),
                    usages=Usage.SERVER,
                )
                spec.server.CopyFrom(to_proto(server))
            if not is_current(spec.client, None, [issuing.crt]):
                client = authority.issue(organizations=[IMPERSONATOR], usages=Usage.CLIENT)
                spec.client.CopyFrom(to_proto(client))
            del spec.accepted_c_as[:]
            spec.accepted_c_as.extend(root.accepted_c_as)
            spec.skip_verifying_client_cert = False

        await runtime.modify(*ids.API_CERTIFICATE, change)

    async def _request(
        self, runtime: ControllerRuntime, root: secrets.OSRootSpec, sans: secrets.CertSANSpec
    ) -> None:
        accepted = tuple(authority.crt for authority in root.accepted_c_as)
        config = await read_config(runtime)
        own = effective_secrets.os_ca(config) if config else None
        issuing = own.crt if own else b""
        if issuing != self._issuing:
            self._issuing, self._request_due = issuing, -math.inf
            self._request_intervals = iter(REQUEST_BACKOFF)
        current = await runtime.get_or_none(*ids.API_CERTIFICATE)
        has_accepted = current is not None and is_current(current.spec.server, sans, accepted)
        if current is not None and has_accepted:
            await runtime.modify(*ids.API_CERTIFICATE, lambda spec: _accept(spec, accepted))
            if is_issued_by(current.spec.server.crt, issuing):
                return
            left = self._request_due - trio.current_time()
            if left > 0:
                self.interval = left
                return
        # Until trustd has answered there is no certificate to serve with: neither for
        # unauthenticated callers any more, nor for authenticated ones yet.
        await _end_maintenance(runtime)
        endpoints = await _endpoints(runtime)
        if not endpoints:
            return
        key = make_key(KeyType.P256)
        csr = make_csr(key, common_name=sans.fqdn, dns_names=sans.dns_names, ips=addresses_of(sans))
        request = SigningRequest(endpoints=endpoints, authorities=accepted, token=root.token, csr=csr)
        signed = parse_certificate(await self._sign(request), where=TRUSTD_ANSWER)
        check_signed(signed, key.public_key(), accepted)
        check_clocks(signed)

        certificates = secrets.APICertsSpec()
        certificates.server.crt, certificates.server.key = certificate_to_pem(signed), key_to_pem(key)
        is_wanted = is_issued_by(certificates.server.crt, issuing)
        if not is_wanted:
            self._plan_request()
            if has_accepted:
                return
        # Only what the config names: who answers as trustd would else choose who administers this node.
        _accept(certificates, accepted)
        await runtime.put(*ids.API_CERTIFICATE, certificates)

    def _plan_request(self) -> None:
        """Request again later what is signed by another CA than this node's config names.

        In a rotation a control plane node may not have followed its config yet; where the configs differ
        for good, the last interval is that of renewals.
        """
        self.interval = next(self._request_intervals)
        self._request_due = trio.current_time() + self.interval


def _accept(spec: secrets.APICertsSpec, authorities: Sequence[bytes]) -> None:
    """Accept clients of these CAs, each once, and no others."""
    del spec.accepted_c_as[:]
    for authority in dict.fromkeys(authorities):
        spec.accepted_c_as.add(crt=authority)


async def _end_maintenance(runtime: ControllerRuntime) -> None:
    current = await runtime.get_or_none(*ids.API_CERTIFICATE)
    if current is not None and current.spec.skip_verifying_client_cert:
        await runtime.remove(*ids.API_CERTIFICATE)


async def _endpoints(runtime: ControllerRuntime) -> tuple[str, ...]:
    """The control plane's endpoints: as discovered, and the host of the cluster's endpoint."""
    found: dict[str, None] = {}
    for resource in await runtime.list(kinds.ENDPOINT):
        found |= dict.fromkeys(_addresses(resource.spec.addresses))
        found |= dict.fromkeys(resource.spec.hosts)
    config = await read_config(runtime)
    url = effective_cluster.cluster_endpoint(config) if config else None
    if url is not None and url.host:
        found[url.host] = None
    return tuple(found)


def _addresses(addresses: Sequence[common.NetIP]) -> list[str]:
    return [str(ipaddress.ip_address(address.ip[:16])) for address in addresses]
