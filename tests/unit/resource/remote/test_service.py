"""What the State service answers on the wire."""

from collections.abc import Sequence

import pytest
from tests.unit.resource.loopback import LoopbackTransport

from talos.api.cosi import resource_pb2, state_pb2
from talos.api.definitions.network_pb2 import AddressStatusSpec
from talos.api.rpc import Code, RpcError
from talos.resource.builtin import register_builtin
from talos.resource.changes import add_finalizer, modify
from talos.resource.kinds import (
    ADDRESS_STATUS,
    DNS_UPSTREAM,
    OS_ROOT_SECRET,
    REGISTRY,
    RESOURCE_DEFINITION,
)
from talos.resource.memory.state import MemoryState
from talos.resource.remote import service
from talos.resource.remote.reader_guard import make_reader_guard
from talos.resource.remote.service import make_state_service
from talos.resource.remote.state import RemoteState
from talos.resource.resource import Phase, make_resource

SERVICE = "/cosi.resource.State/"
TYPE = ADDRESS_STATUS.type


@pytest.fixture
def memory() -> MemoryState:
    return MemoryState(clock=lambda: 1_700_000_000_000_000_005)


@pytest.fixture
def transport(memory: MemoryState) -> LoopbackTransport:
    return LoopbackTransport(make_state_service(memory))


async def put(state: MemoryState, id: str = "a", link: str = "eth0") -> None:
    def change(spec: AddressStatusSpec) -> None:
        spec.link_name = link

    await modify(state, ADDRESS_STATUS, id, change, labels={"zone": "x"}, owner="c")


def get_request(id: str = "a", type: str = TYPE, namespace: str = "network") -> state_pb2.GetRequest:
    return state_pb2.GetRequest(namespace=namespace, type=type, id=id)


async def get(transport: LoopbackTransport, request: state_pb2.GetRequest) -> resource_pb2.Resource:
    return (await transport.unary(SERVICE + "Get", request, state_pb2.GetResponse)).resource


async def watch(
    transport: LoopbackTransport, request: state_pb2.WatchRequest, count: int
) -> Sequence[state_pb2.WatchResponse]:
    """The first ``count`` replies after the empty one."""
    async with transport.stream(SERVICE + "Watch", request, state_pb2.WatchResponse) as replies:
        ready = await anext(replies)
        assert ready == state_pb2.WatchResponse()
        return [await anext(replies) for _ in range(count)]


def watch_request(**options: object) -> state_pb2.WatchRequest:
    return state_pb2.WatchRequest(
        namespace="network",
        type=TYPE,
        api_version=1,
        options=state_pb2.WatchOptions(**options),  # pyright: ignore[reportArgumentType]
    )


async def test_get_has_metadata_and_both_specs(memory: MemoryState, transport: LoopbackTransport) -> None:
    await put(memory)
    await put(memory, link="eth1")
    await add_finalizer(memory, ADDRESS_STATUS, "a", "reader")
    found = await get(transport, get_request())
    metadata = found.metadata
    assert (metadata.namespace, metadata.type, metadata.id) == ("network", TYPE, "a")
    assert (metadata.version, metadata.owner, metadata.phase) == ("3", "c", "running")
    assert (metadata.created.seconds, metadata.created.nanos) == (1_700_000_000, 5)
    assert list(metadata.finalizers) == ["reader"]
    assert dict(metadata.labels) == {"zone": "x"}
    assert AddressStatusSpec.FromString(found.spec.proto_spec).link_name == "eth1"
    assert "linkName: eth1\n" in found.spec.yaml_spec


async def test_list_streams_one_resource_per_message(
    memory: MemoryState, transport: LoopbackTransport
) -> None:
    for name in "cab":
        await put(memory, name)
    request = state_pb2.ListRequest(
        namespace="network",
        type=TYPE,
        options=state_pb2.ListOptions(id_query=resource_pb2.IDQuery(regexp="[ab]")),
    )
    async with transport.stream(SERVICE + "List", request, state_pb2.ListResponse) as replies:
        assert [reply.resource.metadata.id async for reply in replies] == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (state_pb2.ListOptions(id_query=resource_pb2.IDQuery(regexp="(")), Code.INVALID_ARGUMENT),
        (state_pb2.ListOptions(id_query=resource_pb2.IDQuery(regexp="a" * 2000)), Code.INVALID_ARGUMENT),
        (state_pb2.ListOptions(label_query=[resource_pb2.LabelQuery()] * 65), Code.INVALID_ARGUMENT),
        (
            state_pb2.ListOptions(
                label_query=[resource_pb2.LabelQuery(terms=[resource_pb2.LabelTerm(key="k")] * 65)]
            ),
            Code.INVALID_ARGUMENT,
        ),
        (
            state_pb2.ListOptions(
                label_query=[
                    resource_pb2.LabelQuery(terms=[resource_pb2.LabelTerm(key="k", value=["v"] * 65)])
                ]
            ),
            Code.INVALID_ARGUMENT,
        ),
        (
            state_pb2.ListOptions(
                label_query=[
                    resource_pb2.LabelQuery(
                        terms=[resource_pb2.LabelTerm(key="k", op=99)]  # pyright: ignore[reportArgumentType]
                    )
                ]
            ),
            Code.UNIMPLEMENTED,
        ),
    ],
)
async def test_bad_queries(transport: LoopbackTransport, options: state_pb2.ListOptions, code: Code) -> None:
    request = state_pb2.ListRequest(namespace="network", type=TYPE, options=options)
    with pytest.raises(RpcError) as error:
        async with transport.stream(SERVICE + "List", request, state_pb2.ListResponse) as replies:
            await anext(replies)
    assert error.value.code is code
    assert len(error.value.message) < 1024


async def test_refusals_have_their_codes(memory: MemoryState, transport: LoopbackTransport) -> None:
    await put(memory)
    await add_finalizer(memory, ADDRESS_STATUS, "a", "reader")
    metadata = resource_pb2.Metadata(namespace="network", type=TYPE, id="a", version="2", phase="running")
    taken = resource_pb2.Resource(metadata=metadata, spec=resource_pb2.Spec())
    stale = resource_pb2.Resource(metadata=metadata, spec=resource_pb2.Spec())
    stale.metadata.version = "1"
    broken = resource_pb2.Resource(metadata=metadata, spec=resource_pb2.Spec(proto_spec=b"\xff"))
    ours = state_pb2.UpdateOptions(owner="c")
    ending = state_pb2.UpdateOptions(owner="c", expected_phase=Phase.TEARING_DOWN.value)
    nonsense = state_pb2.UpdateOptions(owner="c", expected_phase="nonsense")
    for method, request, reply, code in (
        ("Get", get_request("b"), state_pb2.GetResponse, Code.NOT_FOUND),
        ("Get", get_request(type="Nonsense"), state_pb2.GetResponse, Code.INVALID_ARGUMENT),
        ("Create", state_pb2.CreateRequest(resource=taken), state_pb2.CreateResponse, Code.ALREADY_EXISTS),
        ("Create", state_pb2.CreateRequest(resource=broken), state_pb2.CreateResponse, Code.INVALID_ARGUMENT),
        (
            "Update",
            state_pb2.UpdateRequest(new_resource=taken),
            state_pb2.UpdateResponse,
            Code.PERMISSION_DENIED,
        ),
        (
            "Update",
            state_pb2.UpdateRequest(new_resource=stale, options=ours),
            state_pb2.UpdateResponse,
            Code.FAILED_PRECONDITION,
        ),
        (
            "Update",
            state_pb2.UpdateRequest(new_resource=taken, options=ending),
            state_pb2.UpdateResponse,
            Code.INVALID_ARGUMENT,
        ),
        (
            "Update",
            state_pb2.UpdateRequest(new_resource=taken, options=nonsense),
            state_pb2.UpdateResponse,
            Code.INVALID_ARGUMENT,
        ),
        (
            "Destroy",
            state_pb2.DestroyRequest(
                namespace="network", type=TYPE, id="a", options=state_pb2.DestroyOptions(owner="c")
            ),
            state_pb2.DestroyResponse,
            Code.FAILED_PRECONDITION,
        ),
    ):
        with pytest.raises(RpcError) as error:
            await transport.unary(SERVICE + method, request, reply)
        assert error.value.code is code, method


async def test_teardown_and_destroy(memory: MemoryState, transport: LoopbackTransport) -> None:
    await put(memory)
    request = state_pb2.TeardownAndDestroyRequest(
        namespace="network", type=TYPE, id="a", options=state_pb2.TeardownAndDestroyOptions(owner="c")
    )
    await transport.unary(SERVICE + "TeardownAndDestroy", request, state_pb2.TeardownAndDestroyResponse)
    assert await memory.list(ADDRESS_STATUS) == []


async def test_kind_watch_with_contents(memory: MemoryState, transport: LoopbackTransport) -> None:
    await put(memory)
    created, bootstrapped = await watch(transport, watch_request(bootstrap_contents=True), 2)
    assert [event.event_type for event in created.event] == [state_pb2.CREATED]
    assert created.event[0].resource.metadata.id == "a"
    assert not created.event[0].HasField("old")
    assert not created.event[0].HasField("error")
    assert [event.event_type for event in bootstrapped.event] == [state_pb2.BOOTSTRAPPED]
    assert bootstrapped.event[0].bookmark


async def test_aggregated_watch(memory: MemoryState, transport: LoopbackTransport) -> None:
    for name in "abc":
        await put(memory, name)
    (reply,) = await watch(transport, watch_request(bootstrap_contents=True, aggregated=True), 1)
    assert [event.event_type for event in reply.event] == [0, 0, 0, state_pb2.BOOTSTRAPPED]


async def test_an_aggregated_watch_has_no_huge_messages(
    memory: MemoryState, transport: LoopbackTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_EVENTS", 5000)
    for number in range(10):
        await put(memory, link=f"{number}" * 1000)
    request = watch_request(tail_events=10, aggregated=True)
    names: list[str] = []
    async with transport.stream(SERVICE + "Watch", request, state_pb2.WatchResponse) as replies:
        await anext(replies)
        while len(names) < 10:
            reply = await anext(replies)
            assert len(reply.event) == 1 or reply.ByteSize() < 5500
            names += [event.resource.metadata.version for event in reply.event]
    assert names == [str(number + 1) for number in range(10)]


async def test_old_clients_get_no_new_events(memory: MemoryState, transport: LoopbackTransport) -> None:
    await put(memory)
    request = watch_request(bootstrap_contents=True)
    request.api_version = 0
    async with transport.stream(SERVICE + "Watch", request, state_pb2.WatchResponse) as replies:
        await anext(replies)
        await put(memory, "b")
        seen = [(await anext(replies)).event[0] for _ in range(2)]
    assert [(event.event_type, event.resource.metadata.id) for event in seen] == [(0, "a"), (0, "b")]


async def test_updates_carry_the_old_resource(memory: MemoryState, transport: LoopbackTransport) -> None:
    await put(memory)
    await put(memory, link="eth1")
    (reply,) = await watch(transport, watch_request(tail_events=1), 1)
    event = reply.event[0]
    assert event.event_type == state_pb2.UPDATED
    assert "linkName: eth1" in event.resource.spec.yaml_spec
    assert "linkName: eth0" in event.old.spec.yaml_spec
    assert event.bookmark


async def test_watch_of_an_absent_resource_begins_with_a_tombstone(transport: LoopbackTransport) -> None:
    request = watch_request()
    request.id = "a"
    (reply,) = await watch(transport, request, 1)
    event = reply.event[0]
    assert event.event_type == state_pb2.DESTROYED
    assert (event.resource.metadata.id, event.resource.metadata.version) == ("a", "undefined")
    assert event.resource.spec == resource_pb2.Spec()


@pytest.mark.parametrize(
    "options",
    [
        {"bootstrap_contents": True},
        {"bootstrap_bookmark": True},
        {"label_query": [resource_pb2.LabelQuery()]},
        {"id_query": resource_pb2.IDQuery(regexp="a")},
    ],
)
async def test_what_a_watch_of_one_resource_cant(
    transport: LoopbackTransport, options: dict[str, object]
) -> None:
    request = watch_request(**options)
    request.id = "a"
    with pytest.raises(RpcError) as error:
        await watch(transport, request, 0)
    assert error.value.code is Code.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"start_from_bookmark": b"nonsense"}, Code.FAILED_PRECONDITION),
        ({"bootstrap_contents": True, "tail_events": 1}, Code.INVALID_ARGUMENT),
        ({"tail_events": -1}, Code.INVALID_ARGUMENT),
    ],
)
async def test_watch_that_cant_begin(
    transport: LoopbackTransport, options: dict[str, object], code: Code
) -> None:
    with pytest.raises(RpcError) as error:
        await watch(transport, watch_request(**options), 0)
    assert error.value.code is code


async def test_yaml_only_spec_travels_as_yaml(memory: MemoryState, transport: LoopbackTransport) -> None:
    spec = DNS_UPSTREAM.spec()
    spec.update({"addr": "1.1.1.1:53", "healthy": True})
    stored = await RemoteState(transport).create(make_resource(DNS_UPSTREAM, "#000", spec))
    assert (await memory.get(DNS_UPSTREAM, "#000")).spec == spec == stored.spec
    found = await get(transport, get_request("#000", DNS_UPSTREAM.type))
    assert found.spec.proto_spec == b""
    assert found.spec.yaml_spec == "addr: 1.1.1.1:53\nhealthy: true\n"


async def make_public(memory: MemoryState, *roles: str) -> LoopbackTransport:
    """The service as the API shows it, called with these roles."""
    await register_builtin(memory)
    await put(memory)
    await memory.create(make_resource(OS_ROOT_SECRET, "os", OS_ROOT_SECRET.spec()))
    transport = LoopbackTransport(make_state_service(memory, guard=make_reader_guard(memory)))
    transport.roles = roles
    return transport


SECRET = get_request("os", OS_ROOT_SECRET.type, "secrets")


@pytest.mark.parametrize(
    ("roles", "request_", "message"),
    [
        (("os:reader",), get_request(), ""),
        (("os:operator",), get_request(), ""),
        (("os:admin",), get_request(), ""),
        ((), get_request(), "not authorized"),
        (("os:etcd:backup",), get_request(), "not authorized"),
        (("os:admin",), SECRET, ""),
        (("os:reader", "os:operator"), SECRET, "not authorized"),
        (("os:admin",), get_request(type="Nonsense"), 'resource type "Nonsense" is not supported'),
        (("os:admin",), get_request(type=TYPE.lower()), f'resource type "{TYPE.lower()}" is not supported'),
        (("os:admin",), get_request(namespace="nonsense"), 'namespace "nonsense" is not supported'),
    ],
)
async def test_public_reads(
    memory: MemoryState, roles: tuple[str, ...], request_: state_pb2.GetRequest, message: str
) -> None:
    transport = await make_public(memory, *roles)
    if not message:
        await get(transport, request_)
        return
    with pytest.raises(RpcError) as error:
        await get(transport, request_)
    assert (error.value.code, error.value.message) == (Code.PERMISSION_DENIED, message)


@pytest.mark.parametrize(
    ("role", "message"), [("os:admin", "write access is not allowed"), ("os:operator", "not authorized")]
)
async def test_public_writes_are_refused(memory: MemoryState, role: str, message: str) -> None:
    transport = await make_public(memory, role)
    resource = resource_pb2.Resource(
        metadata=resource_pb2.Metadata(namespace="network", type=TYPE, id="b"), spec=resource_pb2.Spec()
    )
    for method, request, reply in (
        ("Create", state_pb2.CreateRequest(resource=resource), state_pb2.CreateResponse),
        ("Update", state_pb2.UpdateRequest(new_resource=resource), state_pb2.UpdateResponse),
        ("Teardown", state_pb2.TeardownRequest(type=TYPE), state_pb2.TeardownResponse),
        ("Destroy", state_pb2.DestroyRequest(type=TYPE), state_pb2.DestroyResponse),
        (
            "TeardownAndDestroy",
            state_pb2.TeardownAndDestroyRequest(type=TYPE),
            state_pb2.TeardownAndDestroyResponse,
        ),
    ):
        with pytest.raises(RpcError) as error:
            await transport.unary(SERVICE + method, request, reply)
        assert (error.value.code, error.value.message) == (Code.PERMISSION_DENIED, message)


async def test_every_kind_can_be_listed_in_public(memory: MemoryState) -> None:
    transport = await make_public(memory, "os:admin")
    state = RemoteState(transport)
    definitions = await state.list(RESOURCE_DEFINITION)
    assert {item.spec.resource_type for item in definitions} == set(REGISTRY)
    for kind in REGISTRY.values():
        await state.list(kind)
