"""Every controller of this folder."""

from talos.machined.controllers.secrets.api_certificates import ApiCertificatesController
from talos.machined.controllers.secrets.cert_sans import CertSANsController
from talos.machined.controllers.secrets.encryption_salt import EncryptionSaltController
from talos.machined.controllers.secrets.etcd_root import EtcdRootController
from talos.machined.controllers.secrets.kubernetes_root import (
    KubeletSecretController,
    KubernetesRootController,
)
from talos.machined.controllers.secrets.maintenance import (
    MaintenanceCertSANsController,
    MaintenanceRootController,
)
from talos.machined.controllers.secrets.os_root import OSRootController
from talos.machined.controllers.secrets.trustd_certificates import TrustdCertificatesController
from talos.machined.controllers.secrets.trustd_client import make_remote_signer
from talos.resource.controller.controller import Controller
from talos.rpc.bridge import Bridge


def make_controllers(bridge: Bridge) -> list[Controller]:
    """The controllers that make the node's certificates and secrets."""
    return [
        EncryptionSaltController(),
        OSRootController(),
        EtcdRootController(),
        CertSANsController(),
        MaintenanceRootController(),
        MaintenanceCertSANsController(),
        ApiCertificatesController(make_remote_signer(bridge)),
        TrustdCertificatesController(),
        KubernetesRootController(),
        KubeletSecretController(),
    ]
