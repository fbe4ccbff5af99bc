"""What daemons may do to the State: daemons times kinds times verbs, over real sockets."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from google.protobuf.message import Message
from tests.lint.grants import make_controllers

from talos.api.definitions.time_pb2 import NTPStatusSpec
from talos.process.daemons import BY_NAME, DAEMONS
from talos.process.grants import load_grants, make_guard
from talos.process.run import Daemon, host
from talos.resource import ids, kinds
from talos.resource.controller.access import Input
from talos.resource.kind import Kind
from talos.resource.memory.state import MemoryState
from talos.resource.remote.mirror import mirror
from talos.resource.remote.service import make_state_service
from talos.resource.remote.state import RemoteState
from talos.resource.resource import Resource, make_resource
from talos.resource.state import FROM_NOW, NotFoundError, State, StateError, WatchOptions
from talos.rpc.channel import open_channel
from talos.rpc.server import serve
from talos.system.logging import Log

SENSITIVE = {
    "apid": {kinds.API_CERTIFICATE.type},
    "trustd": {kinds.TRUSTD_CERTIFICATE.type, kinds.OS_ROOT_SECRET.type, kinds.MACHINE_CONFIG.type},
    "clusterd": {
        kinds.OPERATOR_SPEC.type,
        kinds.MACHINE_CONFIG.type,
        kinds.DISCOVERY_CONFIG.type,
        kinds.ETCD_ROOT_SECRET.type,
        kinds.ETCD_SECRET.type,
        kinds.KUBE_SPAN_CONFIG.type,
        kinds.KUBE_SPAN_IDENTITY.type,
        kinds.LINK_SPEC.type,
        kinds.SIDEROLINK_CONFIG.type,
        kinds.SIDEROLINK_TUNNEL.type,
        kinds.UNIQUE_MACHINE_TOKEN.type,
    },
    "kubed": {
        kinds.API_SERVER_CONFIG.type,
        kinds.AUDIT_POLICY_CONFIG.type,
        kinds.AUTHENTICATION_CONFIG.type,
        kinds.AUTHORIZATION_CONFIG.type,
        kinds.CERT_SAN.type,
        # Proxies, with their passwords.
        kinds.ENVIRONMENT.type,
        kinds.ETCD_ROOT_SECRET.type,
        kinds.ETCD_SECRET.type,
        kinds.EXTRA_MANIFESTS_CONFIG.type,
        kinds.KUBELET_SECRET.type,
        kinds.KUBERNETES_DYNAMIC_CERT.type,
        kinds.KUBERNETES_ROOT_SECRET.type,
        kinds.KUBERNETES_SECRET.type,
        kinds.MACHINE_CONFIG.type,
        kinds.MANIFEST.type,
        kinds.NODE_ANNOTATION_SPEC.type,
        kinds.NODE_CORDONED_SPEC.type,
        kinds.NODE_LABEL_SPEC.type,
        kinds.NODE_TAINT_SPEC.type,
        kinds.OS_ROOT_SECRET.type,
    },
    "logd": {kinds.MACHINE_CONFIG.type},
    "networkd": {
        kinds.DEVICE_CONFIG_SPEC.type,
        # Proxies, with their passwords.
        kinds.ENVIRONMENT.type,
        kinds.KUBE_SPAN_CONFIG.type,
        kinds.KUBE_SPAN_IDENTITY.type,
        kinds.LINK_SPEC.type,
        kinds.MACHINE_CONFIG.type,
        kinds.OPERATOR_SPEC.type,
        kinds.SIDEROLINK_CONFIG.type,
    },
    "timed": {kinds.MACHINE_CONFIG.type},
    "udevd": {kinds.MACHINE_CONFIG.type},
}
"""The sensitive kinds that daemons may read."""
DENIED = "is not granted to"


def test_the_daemons_with_controllers_are_those_that_declare_some() -> None:
    assert {daemon.name for daemon in DAEMONS if daemon.has_controllers} == make_controllers().keys()


def run_with_state(
    name: str, folder: Path, test: Callable[[MemoryState, RemoteState], Awaitable[None]]
) -> list[str]:
    """Run a test with a State and what one daemon sees of it through a socket; answers with the log."""
    memory = MemoryState()
    lines: list[str] = []

    async def main(daemon: Daemon) -> None:
        service = make_state_service(memory, guard=make_guard(load_grants()[name], daemon.log, memory.usage))
        async with (
            serve(daemon, [service], folder / "s", grace=0),
            open_channel(daemon, folder / "s") as transport,
        ):
            await test(memory, RemoteState(transport))

    asyncio.run(host(main, "test", Log(write=lines.append)))
    return lines


def declared(name: str) -> tuple[list[Input], dict[str, set[str]]]:
    """What a daemon reads, and the owners under which it writes each type."""
    controllers = make_controllers().get(name, ())
    owners: dict[str, set[str]] = {}
    for controller in controllers:
        for output in controller.outputs:
            owners.setdefault(output.kind.type, set()).add(controller.name)
    inputs = [item for controller in controllers for item in controller.inputs]
    return [*BY_NAME[name].reads, *inputs], owners


async def is_granted(call: Awaitable[object]) -> bool:
    try:
        await call
    except StateError as error:
        return DENIED not in str(error)
    return True


async def begin_watch(state: State, kind: Kind[Message], id: str | None) -> None:
    async with state.watch(kind, id, options=WatchOptions(bootstrap=True) if id is None else FROM_NOW):
        pass


@pytest.mark.parametrize("name", list(BY_NAME))
def test_every_kind_as_every_daemon(name: str, tmp_path: Path) -> None:
    inputs, owners = declared(name)

    async def walk(memory: MemoryState, state: RemoteState) -> None:
        del memory
        sensitive: set[str] = set()
        for kind in kinds.REGISTRY.values():
            reads = [item for item in inputs if item.kind.type == kind.type]
            is_output = kind.type in owners
            all_readable = is_output or any(
                item.id is None and item.effective_namespace == kind.namespace for item in reads
            )
            named = {item.id for item in reads if item.id and item.namespace is None}
            for one in ("other", *named):
                expected = all_readable or one in named
                assert await is_granted(state.get(kind, one)) == expected, (kind.type, one)
                assert await is_granted(begin_watch(state, kind, one)) == expected, (kind.type, one)
            assert await is_granted(state.list(kind)) == all_readable, kind.type
            assert await is_granted(begin_watch(state, kind, None)) == all_readable, kind.type
            for owner in ("", "other.Controller", *owners.get(kind.type, ())):
                fresh = make_resource(kind, f"new-{owner}", kind.spec())
                may_write = owner in owners.get(kind.type, ())
                assert await is_granted(state.create(fresh, owner=owner)) == may_write, (kind.type, owner)
                assert await is_granted(state.update(fresh, owner=owner)) == may_write, (kind.type, owner)
                assert await is_granted(state.teardown(kind, "x", owner=owner)) == may_write
                assert await is_granted(state.destroy(kind, "x", owner=owner)) == may_write
            if kind.sensitive and (is_output or reads):
                sensitive.add(kind.type)
        assert sensitive == SENSITIVE.get(name, set())

    run_with_state(name, tmp_path, walk)


def test_what_another_owner_made_stays(tmp_path: Path) -> None:
    async def write(memory: MemoryState, state: RemoteState) -> None:
        kind = kinds.LINK_SPEC
        stored = await memory.create(make_resource(kind, "a", kind.spec(name="a")), owner="machined.Other")
        with pytest.raises(StateError):
            await state.update(stored, owner="network.DefaultsController")
        with pytest.raises(StateError, match=DENIED):
            await state.update(stored, owner="machined.Other")

    run_with_state("networkd", tmp_path, write)


def test_refusals_are_logged_once(tmp_path: Path) -> None:
    async def read(memory: MemoryState, state: RemoteState) -> None:
        del memory
        for number in range(3):
            assert not await is_granted(state.get(kinds.OS_ROOT_SECRET, f"id-{number}"))

    (line,) = [line for line in run_with_state("timed", tmp_path, read) if DENIED in line]
    assert kinds.OS_ROOT_SECRET.type in line


@pytest.mark.parametrize("name", ["bgpd", "clusterd", "dnsd", "logd", "networkd", "timed", "udevd"])
def test_a_mirror_requests_no_more_than_is_declared(name: str, tmp_path: Path) -> None:
    inputs, _ = declared(name)

    async def read(memory: MemoryState, remote: RemoteState) -> None:
        await memory.create(make_resource(*ids.MACHINE_CONFIG, kinds.MACHINE_CONFIG.spec()))
        async with mirror(remote, make_controllers()[name], BY_NAME[name].reads) as state:
            for item in inputs:
                try:
                    await state.get(item.kind, item.id or "other", namespace=item.namespace)
                except NotFoundError:
                    assert (item.kind.type, item.id) != (kinds.MACHINE_CONFIG.type, "v1alpha1")
                async with state.watch(item.kind, namespace=item.namespace):
                    pass

    run_with_state(name, tmp_path, read)


async def is_refused(call: Awaitable[object]) -> str:
    """Why a write was refused; empty when it was not."""
    try:
        await call
    except StateError as error:
        return str(error)
    return ""


def make_status(id: str, size: int, *, namespace: str | None = None) -> Resource[NTPStatusSpec]:
    return make_resource(
        kinds.NTP_STATUS, id, NTPStatusSpec(), namespace=namespace, labels={"large": "x" * size}
    )


def test_what_a_daemon_writes_is_bounded(tmp_path: Path) -> None:
    row = BY_NAME["timed"]
    (owner,) = load_grants()["timed"].owners[kinds.NTP_STATUS.type]

    async def flood(memory: MemoryState, state: RemoteState) -> None:
        assert "bytes, 262144 are allowed" in await is_refused(
            state.create(make_status("a", row.max_spec + 1), owner=owner)
        )
        number = 0
        while not (reason := await is_refused(state.create(make_status(str(number), 250_000), owner=owner))):
            number += 1
        assert f"take {row.max_bytes} bytes at most" in reason
        assert memory.usage.of(owner) <= row.max_bytes
        # Resources without contents are counted, too.
        await state.destroy(kinds.NTP_STATUS, "0", owner=owner)
        number = 0
        while not await is_refused(state.create(make_status(f"small{number}", 0), owner=owner)):
            number += 1
        assert 100 < number < 600

    lines = run_with_state("timed", tmp_path, flood)
    assert len(lines) == 1


def test_a_daemon_makes_no_namespaces(tmp_path: Path) -> None:
    (owner,) = load_grants()["timed"].owners[kinds.NTP_STATUS.type]

    async def walk(_memory: MemoryState, state: RemoteState) -> None:
        for call in (
            state.create(make_status("a", 0, namespace="new"), owner=owner),
            state.list(kinds.NTP_STATUS, namespace="new"),
        ):
            assert DENIED in await is_refused(call)

    run_with_state("timed", tmp_path, walk)
