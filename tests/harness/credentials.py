"""Clients of a running cluster with any roles, and the memory of its processes."""

from pathlib import Path

import grpc
from tests.harness.cluster import Cluster

from talos.config.secrets.bundle import SecretsBundle
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.provision.store import ClusterFolder

API_PORT = 50000


def secrets_of(cluster: Cluster) -> SecretsBundle:
    """The secrets that the cluster's machine configs were made from."""
    secrets = ClusterFolder(cluster.directory.resolve() / cluster.name).secrets
    return SecretsBundle.parse(secrets.read_text(encoding="utf-8"), where=str(secrets))


def authority_of(cluster: Cluster) -> CertificateAuthority:
    """The CA of a cluster's clients and API servers."""
    bundle = secrets_of(cluster)
    return CertificateAuthority.from_pem(bundle.os.crt, bundle.os.key)


def client_of(authority: CertificateAuthority, *roles: str) -> PemPair:
    """A client's certificate with these roles."""
    return authority.issue(organizations=roles, usages=Usage.CLIENT)


def credentials_of(authority: CertificateAuthority, *roles: str) -> grpc.ChannelCredentials:
    """What grpc needs to connect with these roles."""
    client = client_of(authority, *roles)
    return grpc.ssl_channel_credentials(authority.crt, client.key, client.crt)


def resident(pid: int) -> float:
    """The resident memory of a process, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has ended")
