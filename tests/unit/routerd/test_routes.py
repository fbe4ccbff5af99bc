"""Every registered method has a rule, a route and the right kind of stream."""

from importlib import import_module
from pathlib import Path

import pytest
from google.protobuf.descriptor import MethodDescriptor

import talos.api
from talos.api.methods import StreamKind, methods, stream_kind
from talos.api.rpc import Code, RpcError
from talos.routerd.routes import SERVICES, owner_of

NOT_ON_NODES = (
    "securityapi.", "signerapi.", "sidero.", "events.", "cosi.internal.", "containerd.", "etcdserverpb.",
    "runtime.v1.", "talos.internal.", "talos.login.",
)  # fmt: skip
ON_PID_1 = ("EtcdRecover", "EtcdLeaveCluster")
"""Of etcd's methods those that change its data on the node."""


def registered() -> dict[str, MethodDescriptor]:
    """Every method of the services that nodes offer, from the compiled API."""
    root = next(iter(talos.api.__path__))
    found: dict[str, MethodDescriptor] = {}
    for path in sorted(Path(root).rglob("*_pb2.py")):
        name = ".".join(("talos.api", *path.relative_to(root).with_suffix("").parts))
        for service in import_module(name).DESCRIPTOR.services_by_name.values():
            if not service.full_name.startswith(NOT_ON_NODES):
                found |= {f"/{service.full_name}/{method.name}": method for method in service.methods}
    return found


def test_the_table_has_every_method_and_no_other() -> None:
    assert set(methods()) == set(registered())


@pytest.mark.parametrize("path", sorted(methods()))
def test_every_method(path: str) -> None:
    descriptor = registered()[path]
    kinds = {
        (False, False): StreamKind.UNARY,
        (True, False): StreamKind.CLIENT,
        (False, True): StreamKind.SERVER,
        (True, True): StreamKind.BOTH,
    }
    assert stream_kind(path) is kinds[descriptor.client_streaming, descriptor.server_streaming]
    is_etcd = path.startswith("/machine.MachineService/Etcd") and not path.endswith(ON_PID_1)
    owner = "timed" if path.startswith("/time.") else "clusterd" if is_etcd else "machined"
    owner = "kubed" if path.endswith("/Kubeconfig") else owner
    owner = "dnsd" if path.startswith("/talos.probe.") else owner
    assert owner_of(path).name == owner
    assert owner_of(path).needs_config == (owner in {"clusterd", "dnsd", "kubed"})


def test_unknown_method_of_a_known_service() -> None:
    with pytest.raises(RpcError, match=r"unknown method New for service machine\.MachineService") as caught:
        owner_of("/machine.MachineService/New")
    assert caught.value.code is Code.UNIMPLEMENTED


@pytest.mark.parametrize("path", ["/securityapi.SecurityService/Certificate", "/x.Y/Z"])
def test_unknown_services(path: str) -> None:
    with pytest.raises(RpcError, match="unknown service") as caught:
        owner_of(path)
    assert caught.value.code is Code.UNIMPLEMENTED


def test_trustd_is_not_public() -> None:
    assert not any("security" in service for service in SERVICES)
