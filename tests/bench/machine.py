"""Nodes to be measured, in a subnet that neither the user's cluster nor the tests' take first."""

import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network, ip_network
from pathlib import Path

import grpc
from tests.harness.cluster import Cluster, check_services, eventually, image

from talos.config.secrets.bundle import SecretsBundle
from talos.pki.authority import CertificateAuthority, Usage
from talos.pki.certificate import PemPair
from talos.provision.configs import ConfigOptions
from talos.provision.host.cgroups import mounted_hierarchies
from talos.provision.host.checks import check_subnet
from talos.provision.host.names import cluster_group
from talos.provision.local import CreateOptions, create_cluster, destroy_cluster
from talos.provision.plan import ClusterOptions
from talos.provision.progress import NoProgress
from talos.provision.store import ClusterFolder
from talos.system.errors import UserError

API_PORT = 50000
NOT_BOOTSTRAPPED = ("etcd",)
"""Services that wait for a call that is not made here: the bootstrap."""
SUBNETS = ip_network("10.224.0.0/12")


@dataclass(slots=True)
class Stopwatch(NoProgress):
    """When each step of making a cluster began."""

    begun: dict[str, float] = field(default_factory=dict[str, float])

    def begin(self, text: str) -> None:
        self.begun[text.split()[0]] = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A running cluster, a client's certificate that grpcio takes, and when its launcher was started."""

    cluster: Cluster
    authority: bytes
    client: PemPair
    launched: float

    @property
    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.authority, self.client.key, self.client.crt)

    @property
    def targets(self) -> list[str]:
        """Where the nodes' APIs are, control plane first."""
        return [f"{address}:{API_PORT}" for address in self.cluster.addresses]

    def cpu_seconds(self) -> float:
        """What the cluster's processes have used: valid on a busy machine, too."""
        group = cluster_group(ClusterFolder(self.cluster.info.directory))
        for hierarchy in mounted_hierarchies():
            path = hierarchy.path.joinpath(*group)
            if "cpuacct" in hierarchy.controllers:
                return int((path / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
            if hierarchy.unified and (path / "cpu.stat").exists():
                usage = (path / "cpu.stat").read_text(encoding="ascii").split(maxsplit=2)
                assert usage[0] == "usage_usec", usage
                return int(usage[1]) / 1e6
        raise AssertionError("this machine counts no processor time")

    def settle(self) -> None:
        """Wait until every service of every node is up."""
        for address in self.cluster.addresses:
            eventually(
                f"{address} is up",
                lambda node=address: check_services(self.cluster, node, without=NOT_BOOTSTRAPPED),
            )


def free_subnet() -> str:
    """A subnet of its own for each cluster."""
    routes = Path("/proc/net/route").read_text(encoding="ascii")
    for subnet in SUBNETS.subnets(new_prefix=24):
        assert isinstance(subnet, IPv4Network)
        try:
            check_subnet(subnet, routes)
        except UserError:
            continue
        return str(subnet)
    raise AssertionError(f"no subnet of {SUBNETS} is free")


@contextmanager
def run_nodes(
    directory: Path, *, controlplanes: int = 1, workers: int = 0, images: Path | None = None
) -> Generator[Measured]:
    """Start nodes; given back when each one's PID 1 has begun, removed in the end.

    With ``images`` the cluster has a mirror of registries that offers them.
    """
    name = f"bench{uuid.uuid4().hex[:6]}"
    talosconfig = directory / "talosconfig"
    chosen = ClusterOptions(
        name=name,
        subnet=free_subnet(),
        controlplanes=controlplanes,
        workers=workers,
        image=image(),
        images=images,
    )
    options = CreateOptions(directory=directory, talosconfig=str(talosconfig), wait=0)
    watch = Stopwatch()
    try:
        create_cluster(chosen, ConfigOptions(), options, watch)
        folder = ClusterFolder(directory.resolve() / name)
        secrets = SecretsBundle.parse(folder.secrets.read_text(encoding="utf-8"), where=str(folder.secrets))
        authority = CertificateAuthority.from_pem(secrets.os.crt, secrets.os.key)
        client = authority.issue(organizations=["os:admin"], usages=Usage.CLIENT)
        yield Measured(
            cluster=Cluster(name, directory, talosconfig),
            authority=authority.crt,
            client=client,
            launched=watch.begun["starting"],
        )
    finally:
        destroy_cluster(name, directory, NoProgress(), talosconfig=str(talosconfig))
