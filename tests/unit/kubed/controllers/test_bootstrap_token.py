"""The token with which kubelets join has an end, which is moved on, and is known to Kubernetes only."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
import trio.testing
from tests.unit.kubernetes.twin import Twin

from talos.api.definitions.k8s_pb2 import StaticPodSpec
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.config.static_pods import API_SERVER
from talos.kubed.admin import AdminAccess
from talos.kubed.controllers.bootstrap_token import (
    LIFETIME,
    RENEWAL_INTERVAL,
    BootstrapTokenController,
    find_end,
    make_token,
    renew_token,
)
from talos.kubernetes.apply import create_missing
from talos.kubernetes.client import KubernetesError
from talos.kubernetes.inventory import read_inventory, write_inventory
from talos.resource import ids, kinds
from talos.resource.changes import put
from talos.resource.controller.runtime import run_controllers
from talos.resource.memory.state import MemoryState
from talos.system.logging import Log

ROOT = KubernetesRootSpec(bootstrap_token_id="abcdef", bootstrap_token_secret="0123456789abcdef")
PATH = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def decode(secret: Mapping[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


async def test_the_token_has_an_end_that_is_moved_on_at_half_of_its_life() -> None:
    twin = Twin()
    await renew_token(twin, ROOT, NOW)
    secret = twin.objects[PATH]
    assert secret["type"] == "bootstrap.kubernetes.io/token"
    assert decode(secret) == {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:nodes",
        "expiration": "2026-01-02T00:00:00Z",
    }
    await renew_token(twin, ROOT, NOW + LIFETIME / 2)
    assert find_end(twin.objects[PATH]) == NOW + LIFETIME, "it is renewed before it is due"
    await renew_token(twin, ROOT, NOW + LIFETIME / 2 + timedelta(seconds=1))
    assert find_end(twin.objects[PATH]) == NOW + LIFETIME * 1.5 + timedelta(seconds=1)


@pytest.mark.parametrize("end", [None, "", "AAAA", "bm9uZQ==", 7])
async def test_a_token_without_an_end_gets_one(end: object) -> None:
    twin = Twin()
    twin.objects[PATH] = make_token(ROOT, NOW + LIFETIME)
    twin.objects[PATH]["data"]["expiration"] = end
    await renew_token(twin, ROOT, NOW)
    assert find_end(twin.objects[PATH]) == NOW + LIFETIME


async def test_a_changed_token_is_ours_again() -> None:
    twin = Twin()
    twin.objects[PATH] = make_token(ROOT, NOW + LIFETIME)
    twin.objects[PATH]["data"]["token-secret"] = base64.b64encode(b"another").decode()
    await renew_token(twin, ROOT, NOW)
    assert decode(twin.objects[PATH])["token-secret"] == "0123456789abcdef"


async def test_it_leaves_the_record_of_older_nodes_so_that_no_tool_removes_it() -> None:
    twin = Twin()
    old = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}
    kept = await create_missing(twin, old)
    token = make_token(ROOT, NOW + LIFETIME)
    twin.objects["/api/v1/namespaces/kube-system/configmaps/talos-bootstrap-manifests-inventory"] = {
        "data": {"kube-system_bootstrap-token-abcdef__Secret": ""}
    }
    await write_inventory(twin, added=[kept])
    twin.objects[PATH] = {**token, "data": {**token["data"], "expiration": None}}
    await renew_token(twin, ROOT, NOW)
    assert await read_inventory(twin) == {kept}


async def test_the_controller_renews_it_and_tries_again(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    failures = 3

    def refuse(method: str, path: str) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise KubernetesError(0, f"{method} {path}: no answer")

    twin, state, ends = Twin(refuse), MemoryState(), list[datetime]()

    def connect(_access: AdminAccess, _root: KubernetesRootSpec) -> Twin:
        return twin

    monkeypatch.setattr(AdminAccess, "connect", connect)
    await put(state, *ids.KUBERNETES_ROOT_SECRET, ROOT)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_controllers, state, [BootstrapTokenController(Log())])
        await trio.sleep(60)
        assert not twin.calls, "there is no API server yet"
        await put(state, kinds.STATIC_POD, API_SERVER, StaticPodSpec())
        await trio.sleep(60)
        ends.append(find_end(twin.objects[PATH]))
        twin.objects[PATH] = make_token(ROOT, datetime.now(UTC) + LIFETIME / 3)
        await trio.sleep(RENEWAL_INTERVAL + 1)
        ends.append(find_end(twin.objects[PATH]))
        nursery.cancel_scope.cancel()
    assert all(end > datetime.now(UTC) + LIFETIME * 0.9 for end in ends), ends
    assert autojump_clock.current_time() < 2 * RENEWAL_INTERVAL
