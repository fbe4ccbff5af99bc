"""Every method and every resource type with every role: what the tables allow, and nothing else.

A request that can't be parsed shows whether a call is allowed without its effect.
"""

# gRPC's type stubs have no channels of bytes.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import grpc
import grpc.aio
import pytest
from tests.harness.cluster import Cluster, eventually
from tests.harness.credentials import API_PORT, authority_of, credentials_of

from talos.api.cosi import resource_pb2, state_pb2
from talos.api.methods import methods
from talos.api.tables import read_table

CALLERS: Mapping[str, tuple[str, ...]] = {
    **{role: (role,) for role in ("os:admin", "os:operator", "os:reader", "os:etcd:backup")},
    **{role: (role,) for role in ("os:image:verifier", "os:meta:writer", "os:impersonator", "os:upgrade")},
    "nothing": (),
    "what is no role": ("OS:ADMIN", "os:admins", "system:masters"),
}
READERS = frozenset({"os:admin", "os:operator", "os:reader", "os:upgrade"})
UNREADABLE = b"\xff"
MAX_CONCURRENT = 16

type Check = Callable[[grpc.aio.Channel], Awaitable[str]]
"""Makes a call; returns what is wrong with how it ended."""


@asynccontextmanager
async def channel_of(cluster: Cluster, roles: Iterable[str]) -> AsyncGenerator[grpc.aio.Channel]:
    """A connection with these roles."""
    credentials = credentials_of(authority_of(cluster), *roles)
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.secure_channel(f"{cluster.addresses[0]}:{API_PORT}", credentials, options) as channel:
        yield channel


async def run_all(cluster: Cluster, roles: Iterable[str], checks: Iterable[Check]) -> list[str]:
    """What went wrong with any of the checks."""
    places = asyncio.Semaphore(MAX_CONCURRENT)
    async with channel_of(cluster, roles) as channel:

        async def one(check: Check) -> str:
            async with places:
                return await check(channel)

        return [wrong for wrong in await asyncio.gather(*map(one, checks)) if wrong]


def make_method_check(path: str, *, allowed: bool) -> Check:
    async def check(channel: grpc.aio.Channel) -> str:
        call = channel.unary_stream(path)(UNREADABLE, timeout=20)
        with suppress(grpc.aio.AioRpcError):
            while await call.read() is not grpc.aio.EOF:  # pyright: ignore[reportAttributeAccessIssue]
                pass
        code, text = await call.code(), await call.details()
        denied = (code, text) == (grpc.StatusCode.PERMISSION_DENIED, "not authorized")
        expected = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}
        is_right = code in expected if allowed else denied
        return "" if is_right else f"{path}: {code.name} {text}"

    return check


@pytest.mark.parametrize("caller", CALLERS)
def test_methods(cluster: Cluster, caller: str) -> None:
    roles = CALLERS[caller]
    checks = [
        make_method_check(path, allowed=not method.roles.isdisjoint(roles))
        for path, method in methods().items()
    ]
    assert asyncio.run(run_all(cluster, roles, checks)) == []


def make_resource_check(verb: str, type: str, namespace: str, *, allowed: bool) -> Check:
    requests = {
        "Get": state_pb2.GetRequest(namespace=namespace, type=type, id="none"),
        "List": state_pb2.ListRequest(namespace=namespace, type=type),
        "Watch": state_pb2.WatchRequest(namespace=namespace, type=type),
    }

    async def check(channel: grpc.aio.Channel) -> str:
        path = f"/cosi.resource.State/{verb}"
        call = channel.unary_stream(path)(requests[verb].SerializeToString(), timeout=20)
        try:
            # The first message of a list may be a resource; that of a watch is empty.
            await call.read()
            call.cancel()
            code, text = grpc.StatusCode.OK, ""
        except grpc.aio.AioRpcError as error:
            code, text = error.code(), error.details()
        denied = (code, text) == (grpc.StatusCode.PERMISSION_DENIED, "not authorized")
        is_right = code in {grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND} if allowed else denied
        return "" if is_right else f"{verb} {type}: {code.name} {text}"

    return check


@pytest.mark.parametrize("caller", CALLERS)
def test_resource_types(cluster: Cluster, caller: str) -> None:
    roles = CALLERS[caller]
    rows = [row for row in read_table("resources.tsv") if row["registered"] == "yes"]
    hidden = {row["type"] for row in read_table("own_sensitivity.tsv")}
    assert len(rows) > 100
    checks = [
        make_resource_check(
            verb,
            row["type"],
            row["default_namespace"],
            allowed=not {"os:admin"}.isdisjoint(roles)
            if row["sensitivity"] == "sensitive" or row["type"] in hidden
            else not READERS.isdisjoint(roles),
        )
        for row in rows
        for verb in ("Get", "List", "Watch")
    ]
    assert asyncio.run(run_all(cluster, roles, checks)) == []


@pytest.mark.parametrize("caller", CALLERS)
def test_writes_are_refused(cluster: Cluster, caller: str) -> None:
    roles = CALLERS[caller]
    text = "write access is not allowed" if "os:admin" in roles else "not authorized"

    async def check(channel: grpc.aio.Channel) -> str:
        metadata = resource_pb2.Metadata(namespace="network", type="AddressSpecs.net.talos.dev", id="x")
        resource = resource_pb2.Resource(metadata=metadata)
        place = metadata.namespace, metadata.type, metadata.id
        for verb, request in (
            ("Create", state_pb2.CreateRequest(resource=resource)),
            ("Update", state_pb2.UpdateRequest(new_resource=resource)),
            ("Destroy", state_pb2.DestroyRequest(namespace=place[0], type=place[1], id=place[2])),
            ("Teardown", state_pb2.TeardownRequest(namespace=place[0], type=place[1], id=place[2])),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(f"/cosi.resource.State/{verb}")(request.SerializeToString())
            if (caught.value.code(), caught.value.details()) != (grpc.StatusCode.PERMISSION_DENIED, text):
                return f"{verb}: {caught.value.code()} {caught.value.details()}"
        return ""

    assert asyncio.run(run_all(cluster, roles, [check])) == []


def test_refused_calls_are_recorded(cluster: Cluster) -> None:
    async def reboot(channel: grpc.aio.Channel) -> str:
        with pytest.raises(grpc.aio.AioRpcError, match="not authorized"):
            await channel.unary_unary("/machine.MachineService/Reboot")(b"")
        return ""

    assert asyncio.run(run_all(cluster, ("os:reader",), [reboot])) == []

    def is_recorded() -> None:
        records = cluster.talosctl("logs", "audit", "--tail", "20").stdout
        assert '"method":"/machine.MachineService/Reboot"' in records
        assert '"msg":"audit"' not in cluster.talosctl("logs", "apid").stdout

    eventually("the call is recorded", is_recorded)
