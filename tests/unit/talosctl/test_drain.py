"""A node that is not rebooted after all is schedulable again; one that is left cordoned is named."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from talos.api.cosi.resource_pb2 import Resource
from talos.api.definitions.k8s_pb2 import NodenameSpec
from talos.kubernetes.client import KubernetesError
from talos.system.errors import UserError
from talos.talosctl.client import drain as module
from talos.talosctl.client.drain import Drainer

NODE = "10.0.0.2"


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What a node becomes: unschedulable or not."""
    found: list[bool] = []

    async def get_resource(*_: object) -> Resource:
        resource = Resource()
        resource.spec.proto_spec = NodenameSpec(nodename="cp-1").SerializeToString()
        return resource

    async def connect(_: object) -> Any:
        async def call(*_: object) -> dict[str, Any]:
            return {"spec": {"unschedulable": bool(found and found[-1])}}

        return SimpleNamespace(call=call)

    async def set_unschedulable(_: object, name: str, *, unschedulable: bool) -> None:
        assert name == "cp-1"
        found.append(unschedulable)

    monkeypatch.setattr(module, "get_resource", get_resource)
    monkeypatch.setattr(module, "_connect", connect)
    monkeypatch.setattr(module, "set_unschedulable", set_unschedulable)
    return found


@pytest.mark.parametrize(
    ("failure", "raised"),
    [(asyncio.CancelledError(), asyncio.CancelledError), (KubernetesError(500, "no"), UserError)],
)
def test_a_drain_that_ends_early_leaves_the_node_schedulable(
    monkeypatch: pytest.MonkeyPatch,
    changes: list[bool],
    failure: BaseException,
    raised: type[BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def drain(*_: object, **__: object) -> list[str]:
        raise failure

    monkeypatch.setattr(module, "drain", drain)
    drainer = Drainer(5.0)
    with pytest.raises(raised):
        asyncio.run(drainer.drain(cast("Any", None), NODE))
    assert changes == [True, False]
    drainer.show_cordoned()
    assert capsys.readouterr().err == ""


def test_a_node_without_wait_is_named(
    monkeypatch: pytest.MonkeyPatch, changes: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    async def drain(*_: object, **__: object) -> list[str]:
        return []

    monkeypatch.setattr(module, "drain", drain)
    drainer = Drainer(5.0)
    assert asyncio.run(drainer.drain(cast("Any", None), NODE))
    assert changes == [True]
    drainer.show_cordoned()
    assert "kubectl uncordon cp-1" in capsys.readouterr().err
    asyncio.run(drainer.uncordon(cast("Any", None), NODE))
    drainer.show_cordoned()
    assert (changes, capsys.readouterr().err) == ([True, False], "")
