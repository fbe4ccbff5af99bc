"""Which roles may call which method."""

from collections.abc import Mapping

import pytest

from talos.api.methods import Method, StreamKind, methods
from talos.api.rpc import Code, RpcError
from talos.api.tables import read_table
from talos.rpc.proxy.roles import check_roles

BUILT_IN = (
    "os:admin",
    "os:operator",
    "os:reader",
    "os:etcd:backup",
    "os:image:verifier",
    "os:meta:writer",
    "os:upgrade",
)
ROWS = [*read_table("roles.tsv"), *read_table("own_methods.tsv")]


def is_allowed(path: str, roles: tuple[str, ...], **options: bool) -> bool:
    try:
        check_roles(path, roles, **options)
    except RpcError as error:
        return (error.code, error.message) != (Code.PERMISSION_DENIED, "not authorized")
    return True


@pytest.mark.parametrize("path", sorted(methods()))
def test_every_method(path: str) -> None:
    method = methods()[path]
    assert method.roles <= set(BUILT_IN)
    for role in BUILT_IN:
        assert is_allowed(path, (role,)) == (role in method.roles)
    assert is_allowed(path, ("os:admin",))
    assert not is_allowed(path, ())
    assert not is_allowed(path, ("os:impersonator", "admin", "os:adminx", ""))
    assert is_allowed(path, ("nonsense", "os:admin"))


@pytest.mark.parametrize("row", ROWS, ids=[row["method"] for row in ROWS])
def test_maintenance_agrees_with_the_table(row: Mapping[str, str]) -> None:
    """The last column of the table: what a reader may call in maintenance."""
    path, is_in_maintenance = row["method"], row["insecure_maintenance"].startswith("yes")
    assert is_allowed(path, ("os:reader",), maintenance=True) == is_in_maintenance
    assert is_allowed(path, ("os:reader",)) == ("os:reader" in methods()[path].roles)


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


@pytest.mark.parametrize("maintenance", [False, True])
def test_unknown_methods_are_the_admins(*, maintenance: bool) -> None:
    path = "/machine.MachineService/New"
    assert is_allowed(path, ("os:admin",), maintenance=maintenance)
    assert not is_allowed(path, ("os:reader", "os:operator"), maintenance=maintenance)
