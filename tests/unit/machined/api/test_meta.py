"""MetaWrite and MetaDelete."""

from pathlib import Path
from typing import Any

import pytest

from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Code, RpcError
from talos.machined.node.meta_store import MetaStore
from talos.system.block.meta import COPY, make_meta, parse_meta


async def test_write_and_delete(metal: Any, tmp_path: Path) -> None:
    device, store = tmp_path / "meta", MetaStore()
    device.write_bytes(make_meta({}).ljust(1 << 20, b"\0"))
    await store.load(str(device))
    caller = metal.with_node(meta=store)
    await caller.ask("MetaWrite", pb.MetaWriteRequest(key=12, value=b"x"))
    assert parse_meta(device.read_bytes()) == {12: b"x"}
    await caller.ask("MetaDelete", pb.MetaDeleteRequest(key=12))
    assert parse_meta(device.read_bytes()) == {}
    for method, request, code, text in (
        ("MetaDelete", pb.MetaDeleteRequest(key=12), Code.NOT_FOUND, "meta key not found: 0x0c"),
        ("MetaWrite", pb.MetaWriteRequest(key=256), Code.INVALID_ARGUMENT, "from 1 to 255, not 256"),
        ("MetaDelete", pb.MetaDeleteRequest(key=0), Code.INVALID_ARGUMENT, "from 1 to 255, not 0"),
        (
            "MetaWrite",
            pb.MetaWriteRequest(key=1, value=bytes(COPY)),
            Code.RESOURCE_EXHAUSTED,
            "there is room",
        ),
    ):
        with pytest.raises(RpcError, match=text) as error:
            await caller.ask(method, request)
        assert error.value.code is code


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
                await node.ask(method, request)
            assert error.value.code is Code.FAILED_PRECONDITION
