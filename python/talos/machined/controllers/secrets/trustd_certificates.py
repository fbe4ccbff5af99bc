"""TrustdCertificatesController: the certificate with which a control plane node serves trustd."""

from typing import ClassVar

from talos.api.definitions import secrets_pb2 as secrets
from talos.machined.controllers.secrets.certificates import (
    addresses_of,
    is_clock_plausible,
    is_current,
    to_proto,
)
from talos.pki.authority import CertificateAuthority, Usage
from talos.process.renewal import RenewingReconciler
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output


class TrustdCertificatesController(RenewingReconciler):
    """OSRootSecret, CertSAN → TrustdCertificate; nothing on a node without the CA's key."""

    name: ClassVar[str] = "secrets.TrustdController"
    inputs = (
        Input(*ids.OS_ROOT_SECRET),
        Input(*ids.CERT_SAN_API),
        Input(*ids.TIME_STATUS),
    )
    outputs = (Output(kinds.TRUSTD_CERTIFICATE),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Issue the certificate, or a new one when it is due."""
        root = await runtime.get_or_none(*ids.OS_ROOT_SECRET)
        if root is None or not root.spec.issuing_ca.key:
            await runtime.remove(*ids.TRUSTD_CERTIFICATE)
            return
        sans = await runtime.get_or_none(*ids.CERT_SAN_API)
        if sans is None or not await is_clock_plausible(runtime, root.spec.issuing_ca.crt):
            return
        issuing, names = root.spec.issuing_ca, sans.spec

        def change(spec: secrets.TrustdCertsSpec) -> None:
            if not is_current(spec.server, names, [issuing.crt]):
                authority = CertificateAuthority.from_pem(issuing.crt, issuing.key, where="machine.ca")
                spec.server.CopyFrom(
                    to_proto(
                        authority.issue(
                            common_name=names.fqdn,
                            dns_names=names.dns_names,
                            ips=addresses_of(names),
                            usages=Usage.SERVER,
                            key_encipherment=True,
                        )
                    )
                )
            del spec.accepted_c_as[:]
            spec.accepted_c_as.extend(root.spec.accepted_c_as)

        await runtime.modify(*ids.TRUSTD_CERTIFICATE, change)
