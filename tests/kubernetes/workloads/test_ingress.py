"""MetalLB and Contour by their own manifests: addresses for services, and names behind one of them."""

from functools import partial
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.harness.cluster import eventually
from tests.harness.kubernetes import ROLLOUT_TIMEOUT, Kubernetes
from tests.kubernetes.objects import (
    READY_PROBE,
    SERVE_NAME,
    make_container,
    make_deployment,
    make_head,
    make_service,
)
from tests.kubernetes.workloads.manifests import PRIVILEGED, read_manifest, tag_of

pytestmark = pytest.mark.soak

METALLB, CONTOUR = "metallb-system", "projectcontour"
ADDRESSES = 4
"""How many addresses services may have: the last ones of the subnet before that of broadcasts."""
PORT = [{"port": 80, "targetPort": 8080}]


def request_page(address: str, host: str = "") -> tuple[int, str]:
    """Status and body of a page at port 80, requested by a name; AssertionError when there is no answer."""
    request = Request(f"http://{address}/", headers={"Host": host} if host else {})
    try:
        with urlopen(request, timeout=5) as reply:
            return reply.status, reply.read().decode().strip()
    except HTTPError as error:
        return error.code, ""
    except OSError as error:
        raise AssertionError(f"{address}, {host}: {error}") from None


def address_of(kubernetes: Kubernetes, service: str, namespace: str = "default") -> str:
    """The address that a service was given; AssertionError while it has none."""
    (found,) = kubernetes.get("service", service, "-n", namespace)
    given = found["status"]["loadBalancer"].get("ingress")
    assert given, f"{service} has no address"
    return given[0]["ip"]


def give_addresses(kubernetes: Kubernetes) -> None:
    """Install MetalLB, with a pool that it announces by ARP."""
    kubernetes.apply(*read_manifest("metallb"))
    kubernetes.roll_out("controller", namespace=METALLB)
    kubernetes.roll_out("speaker", kind="daemonset", namespace=METALLB)
    last = kubernetes.cluster.info.subnet.broadcast_address - 1
    pool = make_head("IPAddressPool", "services", version="metallb.io/v1beta1", namespace=METALLB)
    advertisement = make_head("L2Advertisement", "services", version="metallb.io/v1beta1", namespace=METALLB)
    documents = ({**pool, "spec": {"addresses": [f"{last - ADDRESSES + 1}-{last}"]}}, advertisement)
    # It answers for them itself, once its certificate is where the API server finds it.
    eventually("its webhook is there", partial(kubernetes.apply, *documents), seconds=ROLLOUT_TIMEOUT)


def install_contour(kubernetes: Kubernetes) -> None:
    """Apply Contour's manifest, in a namespace where pods may have ports of nodes."""
    objects = read_manifest("contour")
    for found in objects:
        if found["kind"] == "Namespace":
            found["metadata"]["labels"] = PRIVILEGED
        if found["kind"] == "DaemonSet":
            (envoy,) = (c for c in found["spec"]["template"]["spec"]["containers"] if c["name"] == "envoy")
            # The release of Envoy that can be had is another one than that of the manifest.
            envoy["image"] = f"docker.io/envoyproxy/envoy:{tag_of('envoy')}"
    kubernetes.apply(*objects)
    kubernetes.roll_out("contour", namespace=CONTOUR)
    kubernetes.roll_out("envoy", kind="daemonset", namespace=CONTOUR)


def make_ingress(name: str, host: str) -> dict[str, Any]:
    """What leads a host's name to the service of that name."""
    backend = {"service": {"name": name, "port": {"number": 80}}}
    rule = {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    spec = {"ingressClassName": "contour", "rules": [rule]}
    return {**make_head("Ingress", name, version="networking.k8s.io/v1"), "spec": spec}


@pytest.fixture(scope="module", autouse=True)
def servers(workloads: Kubernetes) -> None:
    """Both programs, and two services that answer with the names of their pods."""
    container = make_container(SERVE_NAME, readinessProbe=READY_PROBE)
    workloads.apply(*(make_deployment(name, 1, container) for name in ("red", "blue")))
    give_addresses(workloads)
    for name in ("red", "blue"):
        workloads.roll_out(name)


def test_a_service_has_an_address_of_the_pool(workloads: Kubernetes) -> None:
    workloads.apply(make_service("red", PORT, type="LoadBalancer"))
    address = eventually("it has an address", lambda: address_of(workloads, "red"))
    subnet = workloads.cluster.info.subnet
    assert address in {str(subnet.broadcast_address - number) for number in range(1, ADDRESSES + 1)}
    status, body = eventually("a node answers for it", lambda: request_page(address), seconds=ROLLOUT_TIMEOUT)
    assert status == 200
    assert body.startswith("red-")
    workloads.delete("service/red", wait=True)


def test_names_lead_to_services_behind_one_address_and_the_ports_of_a_node(workloads: Kubernetes) -> None:
    install_contour(workloads)
    for name in ("red", "blue"):
        workloads.apply(make_service(name, PORT), make_ingress(name, f"{name}.example.org"))
    address = eventually("Envoy has an address", lambda: address_of(workloads, "envoy", CONTOUR))
    worker = str(workloads.cluster.nodes[1].address)

    def check() -> None:
        for target in (address, worker):
            for name in ("red", "blue"):
                status, body = request_page(target, f"{name}.example.org")
                assert status == 200, (target, name, status)
                assert body.startswith(f"{name}-"), (target, name, body)
            assert request_page(target, "green.example.org") == (404, ""), target

    eventually("names lead to services", check, seconds=ROLLOUT_TIMEOUT, pause=1)
    (ingress,) = workloads.get("ingress", "red")
    assert ingress["status"]["loadBalancer"]["ingress"] == [{"ip": address}]
    workloads.delete(
        *(f"{kind}/{name}" for kind in ("ingress", "service", "deployment") for name in ("red", "blue"))
    )
    workloads.delete(f"namespace/{CONTOUR}", f"namespace/{METALLB}")
