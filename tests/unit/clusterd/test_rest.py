"""The controllers of membership at rest."""

import ipaddress
from typing import Any, cast

from tests.harness.rest import CountingState, check_rest

from talos.api.common.common_pb2 import NetIP, NetIPPrefix, PEMEncodedCertificateAndKey
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cluster_pb2 import AffiliateSpec, IdentitySpec
from talos.api.definitions.network_pb2 import HostnameStatusSpec, NodeAddressSpec
from talos.api.definitions.secrets_pb2 import EtcdRootSpec
from talos.api.definitions.time_pb2 import StatusSpec
from talos.api.resource import config_pb2
from talos.clusterd.controllers.config import ClusterInfoController, DiscoveryConfigController
from talos.clusterd.controllers.discovery_service import DiscoveryServiceController
from talos.clusterd.controllers.etcd_certificates import EtcdCertificatesController
from talos.clusterd.controllers.etcd_config import EtcdConfigController, EtcdSpecController
from talos.clusterd.controllers.local_affiliate import LocalAffiliateController
from talos.clusterd.controllers.members import (
    RAW_NAMESPACE,
    AffiliateMergeController,
    EndpointController,
    MemberController,
)
from talos.clusterd.controllers.nodename import NodenameController
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import has_names, parse_certificate
from talos.pki.keys import KeyType
from talos.process.addresses import CONFIG_VERSION
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.system.logging import Log

CONFIG = b"""\
version: v1alpha1
machine:
  type: controlplane
  token: abcdef.0123456789abcdef
cluster:
  id: 8XuV9TZHW08DOk3bVxQjH9ih_TBKjnh-j44tsCLSBzo=
  secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
  controlPlane:
    endpoint: https://10.5.0.2:6443
  etcd: {}
  discovery:
    enabled: true
    registries:
      service: {disabled: true}
"""
NO_BRIDGE = cast("Any", None)
"""No service is configured: nothing connects."""


def packed(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


async def test_nothing_is_written_without_a_change() -> None:
    state, lines = CountingState(), list[str]()
    log = Log(write=lines.append)
    await put(state, *ids.MACHINE_CONFIG, config_pb2.MachineConfigSpec(yaml_marshalled=CONFIG))
    await put(state, *ids.IDENTITY, IdentitySpec(node_id="own"))
    await put(state, *ids.HOSTNAME_STATUS, HostnameStatusSpec(hostname="node-1", domainname="example.org"))
    await put(state, *ids.MACHINE_TYPE, config_pb2.MachineTypeSpec(machine_type=config_pb2.CONTROL_PLANE))
    authority = CertificateAuthority.generate(KeyType.P256, organizations=["etcd"]).pem
    root = PEMEncodedCertificateAndKey(crt=authority.crt, key=authority.key)
    await put(state, *ids.ETCD_ROOT_SECRET, EtcdRootSpec(etcd_ca=root))
    await put(state, *ids.TIME_STATUS, StatusSpec(synced=True))
    prefixes = [NetIPPrefix(ip=packed(text), prefix_length=24) for text in ("10.5.0.2", "fd00::2")]
    for addresses in (
        ids.NODE_ADDRESS_ROUTED_NO_K8S,
        ids.NODE_ADDRESS_CURRENT_NO_K8S,
        ids.NODE_ADDRESS_ACCUMULATIVE_NO_K8S,
    ):
        await put(state, *addresses, NodeAddressSpec(addresses=prefixes), annotations={CONFIG_VERSION: "1"})
    for source, node_id in (("service", "b"), ("k8s", "b"), ("service", "c"), ("service", "d")):
        spec = AffiliateSpec(
            node_id=node_id,
            nodename="same" if node_id in "cd" else node_id,
            machine_type=enums.TYPE_CONTROL_PLANE,
            addresses=[NetIP(ip=packed("10.5.0.3")), NetIP(ip=packed("10.5.0.4"))],
        )
        await put(state, kinds.AFFILIATE, f"{source}/{node_id}", spec, namespace=RAW_NAMESPACE)
    controllers = [
        ClusterInfoController(),
        DiscoveryConfigController(),
        NodenameController(),
        LocalAffiliateController(),
        DiscoveryServiceController(NO_BRIDGE, log),
        AffiliateMergeController(),
        MemberController(log),
        EndpointController(),
        EtcdConfigController(),
        EtcdSpecController(),
        EtcdCertificatesController(),
    ]
    await check_rest(state, controllers)
    assert len(lines) == 1, "two nodes have one name"
    spec = (await state.get(*ids.ETCD_SPEC)).spec
    assert [address.ip for address in spec.advertised_addresses] == [packed("10.5.0.2")]
    secret = (await state.get(*ids.ETCD_SECRET)).spec
    server, peer, admin = map(
        parse_certificate, (secret.etcd.crt, secret.etcd_peer.crt, secret.etcd_admin.crt)
    )
    names = ["node-1", "node-1.example.org"]
    assert has_names(server, [*names, "localhost"], ["10.5.0.2", "fd00::2", "127.0.0.1", "::1"])
    assert has_names(peer, names, ["10.5.0.2", "fd00::2"])
    assert admin.subject.rfc4514_string() == "CN=talos"
    assert {member.id for member in await state.list(kinds.MEMBER)} == {"node-1", "b", "same"}
