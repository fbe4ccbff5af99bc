"""Certificates of Kubernetes stay until they are due, and are for the names that the API server has."""

import base64
import ipaddress
from datetime import timedelta

import trio
import trio.testing
import yaml
from cryptography import x509

from talos.api.common.common_pb2 import NetIP
from talos.api.definitions.secrets_pb2 import KubernetesDynamicCertsSpec, KubernetesRootSpec
from talos.api.definitions.time_pb2 import StatusSpec as TimeStatusSpec
from talos.kubed.controllers.certificates import KubernetesSecretsController, issue, make_sans
from talos.kubed.service import make_admin_kubeconfig, make_archive
from talos.pki.authority import CertificateAuthority
from talos.pki.certificate import parse_certificate
from talos.pki.keys import KeyType
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState


def make_root(authority: CertificateAuthority) -> KubernetesRootSpec:
    root = KubernetesRootSpec(
        name="test", dns_domain="cluster.local", cert_sa_ns=["api.example", "192.0.2.7"]
    )
    root.endpoint.full_path = "https://10.5.0.2:6443"
    root.local_endpoint.full_path = "https://localhost:6443"
    root.issuing_ca.crt, root.issuing_ca.key = authority.crt, authority.pem.key
    root.aggregator_ca.CopyFrom(root.issuing_ca)
    root.accepted_c_as.add(crt=authority.crt)
    root.api_server_ips.append(NetIP(ip=ipaddress.ip_address("10.96.0.1").packed))
    return root


AUTHORITY = CertificateAuthority.generate(KeyType.P256, organizations=["kubernetes"])
ROOT = make_root(AUTHORITY)
SANS = make_sans(ROOT, ["one"], [ipaddress.ip_address("10.5.0.2").packed])


def test_the_api_server_has_the_names_that_clients_use() -> None:
    addresses = {str(ipaddress.ip_address(ip.ip)) for ip in SANS.i_ps}
    assert addresses == {"10.5.0.2", "10.96.0.1", "127.0.0.1", "192.0.2.7"}
    assert set(SANS.dns_names) == {
        "api.example",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
        "one",
    }


def test_what_is_current_stays() -> None:
    spec = KubernetesDynamicCertsSpec()
    issue(spec, ROOT, SANS)
    before = spec.SerializeToString(deterministic=True)
    issue(spec, ROOT, SANS)
    assert spec.SerializeToString(deterministic=True) == before
    issue(spec, ROOT, make_sans(ROOT, ["two"], []))
    assert spec.SerializeToString(deterministic=True) != before
    client = parse_certificate(spec.api_server_kubelet_client.crt)
    assert "O=system:masters" in client.subject.rfc4514_string()


async def test_a_daemon_that_starts_again_leaves_the_kubeconfigs_of_the_one_before() -> None:
    """Others would restart the pods that read them."""
    state, contents = MemoryState(), list[bytes]()
    await put(state, *ids.KUBERNETES_ROOT_SECRET, ROOT)
    await put(state, *ids.TIME_STATUS, TimeStatusSpec(synced=True))
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_controllers, state, [KubernetesSecretsController()])
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel()
        secret = await state.get(*ids.KUBERNETES_SECRET)
        contents.append(secret.spec.SerializeToString(deterministic=True))
    assert contents[0] == contents[1]


def test_an_administrator_gets_a_kubeconfig() -> None:
    document = yaml.safe_load(make_admin_kubeconfig(ROOT, timedelta(hours=1)))
    assert document["current-context"] == "admin@test"
    assert document["clusters"][0]["cluster"]["server"] == "https://10.5.0.2:6443"
    pem = base64.b64decode(document["users"][0]["user"]["client-certificate-data"])
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(hours=1)
    assert make_archive("x").startswith(b"\x1f\x8b")
