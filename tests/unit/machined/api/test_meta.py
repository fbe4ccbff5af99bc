"""MetaWrite and MetaDelete, and who sees META's values."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.resource.loopback import LoopbackTransport

from talos.api.definitions.runtime_pb2 import MetaKeySpec, MetaLoadedSpec
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.machined.api.meta import hide_meta
from talos.machined.node.meta_store import MetaStore
from talos.resource import ids, kinds
from talos.resource.builtin import register_builtin
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState
from talos.resource.remote.reader_guard import make_reader_guard
from talos.resource.remote.service import make_state_service
from talos.resource.remote.state import RemoteState
from talos.resource.state import WatchOptions
from talos.system.block.meta import COPY, make_meta, parse_meta
from talos.upgrade.state import ANNOUNCE_TAG, IDLE, LABEL_TAG, MAX_STATE, STATE_TAG, format_state


async def test_write_and_delete(metal: Any, tmp_path: Path) -> None:
    device, store = tmp_path / "meta", MetaStore()
    device.write_bytes(make_meta({}).ljust(1 << 20, b"\0"))
    await store.load(str(device))
    caller = metal.with_node(meta=store)
    await caller.call("MetaWrite", pb.MetaWriteRequest(key=12, value=b"x"))
    assert parse_meta(device.read_bytes()) == {12: b"x"}
    await caller.call("MetaDelete", pb.MetaDeleteRequest(key=12))
    assert parse_meta(device.read_bytes()) == {}
    for method, request, code, text in (
        ("MetaDelete", pb.MetaDeleteRequest(key=12), Code.NOT_FOUND, "meta key not found: 0x0c"),
        ("MetaWrite", pb.MetaWriteRequest(key=256), Code.INVALID_ARGUMENT, "from 1 to 255, not 256"),
        ("MetaDelete", pb.MetaDeleteRequest(key=256), Code.INVALID_ARGUMENT, "from 1 to 255, not 256"),
        (
            "MetaWrite",
            pb.MetaWriteRequest(key=1, value=bytes(COPY)),
            Code.RESOURCE_EXHAUSTED,
            "there is room",
        ),
    ):
        with pytest.raises(RpcError, match=text) as error:
            await caller.call(method, request)
        assert error.value.code is code


@pytest.mark.parametrize("key", [1, 255])
async def test_keys_have_one_byte(metal: Any, tmp_path: Path, key: int) -> None:
    device, store = tmp_path / "meta", MetaStore()
    device.write_bytes(make_meta({}).ljust(1 << 20, b"\0"))
    await store.load(str(device))
    caller = metal.with_node(meta=store)
    await caller.call("MetaWrite", pb.MetaWriteRequest(key=key, value=b"x"))
    assert parse_meta(device.read_bytes()) == {key: b"x"}
    device.unlink()
    for method, request in (
        ("MetaWrite", pb.MetaWriteRequest(key=key, value=b"y")),
        ("MetaDelete", pb.MetaDeleteRequest(key=key)),
    ):
        with pytest.raises(RpcError, match="META can't be written: No such file or directory") as error:
            await caller.call(method, request)
        assert error.value.code is Code.UNKNOWN
    assert store.values == {key: b"x"}


async def test_an_upgrades_state_is_its_own(metal: Any, tmp_path: Path) -> None:
    """Else a role that only writes META would choose the system that boots."""
    device, store = tmp_path / "meta", MetaStore()
    kept = {LABEL_TAG: b"A", STATE_TAG: format_state(IDLE), ANNOUNCE_TAG: b"1"}
    device.write_bytes(make_meta(kept).ljust(1 << 20, b"\0"))
    await store.load(str(device))
    caller = metal.with_node(meta=store)
    for key in kept:
        for method, request in (
            ("MetaWrite", pb.MetaWriteRequest(key=key, value=b"B")),
            ("MetaDelete", pb.MetaDeleteRequest(key=key)),
        ):
            with pytest.raises(RpcError, match="upgrade's own and can't be written: use talosctl ") as error:
                await caller.call(method, request)
            assert error.value.code is Code.PERMISSION_DENIED
    assert parse_meta(device.read_bytes()) == kept


async def test_room_is_kept_for_an_upgrades_state(metal: Any, tmp_path: Path) -> None:
    device, store = tmp_path / "meta", MetaStore()
    device.write_bytes(make_meta({}).ljust(1 << 20, b"\0"))
    await store.load(str(device))
    caller = metal.with_node(meta=store)
    room = COPY - 4 * MAX_STATE
    await caller.call("MetaWrite", pb.MetaWriteRequest(key=12, value=bytes(room)))
    with pytest.raises(RpcError, match="there is room for") as error:
        await caller.call("MetaWrite", pb.MetaWriteRequest(key=12, value=bytes(room + MAX_STATE)))
    assert error.value.code is Code.RESOURCE_EXHAUSTED
    for key in (LABEL_TAG, STATE_TAG, ANNOUNCE_TAG):
        await store.set(key, bytes(MAX_STATE))


async def test_without_meta(caller: Any, metal: Any) -> None:
    for node, text in (
        (metal, "there is no META yet"),
        (caller, "method is not supported in container mode"),
    ):
        for method, request in (
            ("MetaWrite", pb.MetaWriteRequest(key=12, value=b"x")),
            ("MetaDelete", pb.MetaDeleteRequest(key=12)),
        ):
            with pytest.raises(RpcError, match=text) as error:
                await node.call(method, request)
            assert error.value.code is Code.FAILED_PRECONDITION


@pytest.mark.parametrize(
    ("role", "shown"),
    [("os:admin", "code"), ("os:reader", "***"), ("os:upgrade", "***"), ("os:operator", "***")],
)
async def test_readers_see_an_upgrades_state_and_no_other_value(role: str, shown: str) -> None:
    """Tokens, keys and the code of a config lie in META, and in maintenance every caller is a reader."""
    memory = MemoryState()
    await register_builtin(memory)
    kept = format_state(IDLE).decode()
    for id_, value in (("0x0b", "code"), ("0x0c", ""), (f"0x{STATE_TAG:02x}", kept)):
        await put(memory, kinds.META_KEY, id_, MetaKeySpec(value=value))
    await put(memory, *ids.META_LOAD, MetaLoadedSpec(done=True))
    service = make_state_service(memory, guard=make_reader_guard(memory), view=hide_meta)
    transport = LoopbackTransport(service)
    transport.roles = (role,)
    state = RemoteState(transport)
    expected = {"0x0b": shown, "0x0c": "", f"0x{STATE_TAG:02x}": kept}
    assert {one.id: one.spec.value for one in await state.list(kinds.META_KEY)} == expected
    assert (await state.get(kinds.META_KEY, "0x0b")).spec.value == shown
    assert (await state.get(*ids.META_LOAD)).spec.done, "other resources are as they are"
    seen: dict[str, str] = {}
    options = WatchOptions(bootstrap=True, aggregated=True)
    async with state.watch(kinds.META_KEY, options=options) as events:
        while len(seen) < len(expected):
            found = [event.resource for event in await anext(events) if event.resource]
            seen |= {one.id: one.spec.value for one in found}
    assert seen == expected


@pytest.mark.parametrize("key", [0x00, 0x06, 0x07, 0x08, 0x09, 0x11, 0x12])
async def test_the_systems_keys_are_its_own(metal: Any, key: int) -> None:
    caller = metal.with_node(meta=MetaStore())
    for method, request in (
        ("MetaWrite", pb.MetaWriteRequest(key=key, value=b"x")),
        ("MetaDelete", pb.MetaDeleteRequest(key=key)),
    ):
        with pytest.raises(RpcError, match=f"key 0x{key:02x} is .* own and can't be written") as error:
            await caller.call(method, request)
        assert error.value.code is Code.PERMISSION_DENIED
