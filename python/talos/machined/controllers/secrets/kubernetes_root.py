"""The secrets of Kubernetes in the machine config: all of them for the control plane, few for a kubelet."""

import ipaddress
from typing import ClassVar

from google.protobuf.struct_pb2 import Struct

from talos.api.definitions.secrets_pb2 import KubeletSpec, KubernetesRootSpec
from talos.config.active import read_config
from talos.config.documents.kubernetes.aggregator_ca import KubeAggregatorCAConfig
from talos.config.documents.kubernetes.etcd_encryption import KubeEtcdEncryptionConfig
from talos.config.documents.kubernetes.service_account import KubeServiceAccountConfig
from talos.config.effective import api_server, kubernetes
from talos.config.effective import cluster as effective_cluster
from talos.config.effective import secrets as effective_secrets
from talos.config.model import Config
from talos.machined.controllers.secrets.certificates import to_proto
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class KubernetesRootController(Reconciler):
    """MachineConfig → KubernetesRootSecret; none on a node that can't issue Kubernetes' certificates."""

    name: ClassVar[str] = "secrets.RootKubernetesController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.KUBERNETES_ROOT_SECRET),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, while the node is a control plane node with Kubernetes."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if config is None or not config.machine_type.is_control_plane:
                return
            authority = effective_secrets.kubernetes_ca(config)
            if authority is not None and authority.key and effective_cluster.cluster_endpoint(config):
                await runtime.put(*ids.KUBERNETES_ROOT_SECRET, make_root(config))


class KubeletSecretController(Reconciler):
    """MachineConfig → KubeletSecret: what a kubelet joins its cluster with; none without Kubernetes."""

    name: ClassVar[str] = "secrets.KubeletController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.KUBELET_SECRET),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            if (
                config is None
                or not effective_cluster.cluster_endpoint(config)
                or not effective_secrets.kubernetes_ca(config)
            ):
                return
            spec = KubeletSpec()
            spec.endpoint.full_path = find_endpoint(config)
            spec.endpoint_tls_server_name = kubernetes.prism_server_name(config)
            spec.bootstrap_token_id, spec.bootstrap_token_secret = split_token(config)
            for crt in effective_secrets.kubernetes_cas(config):
                spec.accepted_c_as.add(crt=crt)
            await runtime.put(*ids.KUBELET_SECRET, spec)


def find_endpoint(config: Config) -> str:
    """Where a kubelet reaches the API: the node's balancer, the node itself, or the cluster's endpoint."""
    if port := kubernetes.prism_port(config):
        return f"https://127.0.0.1:{port}"
    if config.machine_type.is_control_plane:
        return f"https://localhost:{effective_cluster.api_server_port(config)}"
    return effective_cluster.cluster_endpoint(config) or ""


def split_token(config: Config) -> tuple[str, str]:
    """The two halves of the bootstrap token."""
    token_id, _, secret = effective_secrets.bootstrap_token(config).partition(".")
    return token_id, secret


def make_root(config: Config) -> KubernetesRootSpec:
    """The secrets of a config."""
    endpoint = effective_cluster.cluster_endpoint(config) or ""
    root = KubernetesRootSpec(
        name=effective_cluster.cluster_name(config),
        cert_sa_ns=api_server.cert_sans(config),
        dns_domain=effective_cluster.dns_domain(config),
        aescbc_encryption_secret=effective_secrets.aescbc_secret(config),
        secretbox_encryption_secret=effective_secrets.secretbox_secret(config),
        issuer_url=endpoint,
        api_audiences=[endpoint],
    )
    root.endpoint.full_path = endpoint
    root.local_endpoint.full_path = f"https://localhost:{effective_cluster.api_server_port(config)}"
    root.bootstrap_token_id, root.bootstrap_token_secret = split_token(config)
    root.service_account.key = effective_secrets.service_account_key(config)
    for pair, target in (
        (effective_secrets.kubernetes_ca(config), root.issuing_ca),
        (effective_secrets.aggregator_ca(config), root.aggregator_ca),
    ):
        if pair is not None:
            target.CopyFrom(to_proto(pair))
    for subnet in effective_cluster.service_subnets(config):
        root.api_server_ips.add(ip=ipaddress.ip_network(subnet, strict=False)[1].packed)
    for crt in effective_secrets.kubernetes_cas(config):
        root.accepted_c_as.add(crt=crt)
    _add_documents(root, config)
    return root


def _add_documents(root: KubernetesRootSpec, config: Config) -> None:
    """What only the newer documents have."""
    encryption = config.find(KubeEtcdEncryptionConfig)
    if encryption is not None and encryption.config:
        struct = Struct()
        struct.update(encryption.config)
        root.etcd_encryption_config.CopyFrom(struct)
    aggregator = config.find(KubeAggregatorCAConfig)
    for crt in (aggregator.accepted_cas if aggregator else None) or ():
        root.accepted_aggregator_c_as.add(crt=crt.encode())
    account = config.find(KubeServiceAccountConfig)
    if account is None:
        return
    if account.issuer.issuer_url:
        root.issuer_url = account.issuer.issuer_url
        root.api_audiences[:] = [account.issuer.issuer_url]
    if account.accepted:
        for key in account.accepted.public_keys or ():
            root.service_account_accepted_keys.add(key=key.encode())
        root.accepted_issuers.extend(account.accepted.issuers or ())
        root.api_audiences.extend(account.accepted.audiences or ())
