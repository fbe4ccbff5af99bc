"""Every registered method has a rule, a route and the right kind of stream."""

from importlib import import_module
from pathlib import Path

import pytest
from google.protobuf.descriptor import MethodDescriptor

import talos.api
from talos.api.methods import Method, StreamKind, methods, split_path, stream_kind
from talos.api.rpc import Code, RpcError
from talos.routerd.routes import MACHINED, SERVICES, TIMED, owner_of
from talos.routerd.rules import check_roles

BUILT_IN = (
    "os:admin",
    "os:operator",
    "os:reader",
    "os:etcd:backup",
    "os:image:verifier",
    "os:meta:writer",
)
NOT_ON_NODES = ("securityapi.", "signerapi.", "sidero.", "events.", "cosi.internal.", "containerd.")


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


def is_allowed(path: str, roles: tuple[str, ...], *, maintenance: bool = False) -> bool:
    try:
        check_roles(path, roles, maintenance=maintenance)
    except RpcError as error:
        return (error.code, error.message) != (Code.PERMISSION_DENIED, "not authorized")
    return True


def test_the_table_has_every_method_and_no_other() -> None:
    assert set(methods()) == set(registered())


@pytest.mark.parametrize("path", sorted(methods()))
def test_every_method(path: str) -> None:
    method = methods()[path]
    descriptor = registered()[path]
    kind = stream_kind(path)
    assert (kind.streams_requests, kind.streams_replies) == (
        descriptor.client_streaming,
        descriptor.server_streaming,
    )
    assert method.roles <= set(BUILT_IN)
    for role in BUILT_IN:
        assert is_allowed(path, (role,)) == (role in method.roles)
    assert is_allowed(path, ("os:admin",))
    assert not is_allowed(path, ())
    assert not is_allowed(path, ("os:impersonator", "admin", "os:adminx", ""))
    assert is_allowed(path, ("nonsense", "os:admin"))
    assert owner_of(path) is (TIMED if path.startswith("/time.") else MACHINED)


@pytest.mark.parametrize("path", sorted(methods()))
def test_maintenance_agrees_with_the_table(path: str) -> None:
    """The last column of the table says what a reader may call in maintenance."""
    assert is_allowed(path, ("os:reader",), maintenance=True) == methods()[path].in_maintenance


def test_who_may_do_what() -> None:
    assert methods()["/machine.MachineService/Reset"] == Method(
        path="/machine.MachineService/Reset",
        stream=StreamKind.UNARY,
        roles=frozenset({"os:admin"}),
        one_to_many=True,
    )
    assert methods()["/machine.MachineService/EtcdSnapshot"].roles == {
        "os:admin",
        "os:operator",
        "os:etcd:backup",
    }
    assert methods()["/cosi.resource.State/Create"].roles == {"os:admin"}


def test_unknown_methods_are_the_admins() -> None:
    assert is_allowed("/machine.MachineService/New", ("os:admin",))
    assert not is_allowed("/machine.MachineService/New", ("os:reader", "os:operator"))


def test_unknown_method_of_a_known_service() -> None:
    with pytest.raises(RpcError, match=r"unknown method New for service machine\.MachineService") as caught:
        owner_of("/machine.MachineService/New")
    assert caught.value.code is Code.UNIMPLEMENTED


@pytest.mark.parametrize("path", ["/securityapi.SecurityService/Certificate", "/x.Y/Z"])
def test_unknown_services(path: str) -> None:
    with pytest.raises(RpcError, match="unknown service") as caught:
        owner_of(path)
    assert caught.value.code is Code.UNIMPLEMENTED


@pytest.mark.parametrize("path", ["", "/", "x", "/x", "x/y", "/a/b/c", "//", "/x/"])
def test_malformed_paths(path: str) -> None:
    with pytest.raises(RpcError, match="malformed method name") as caught:
        split_path(path)
    assert caught.value.code is Code.UNIMPLEMENTED


def test_trustd_is_not_public() -> None:
    assert not any("security" in service for service in SERVICES)
