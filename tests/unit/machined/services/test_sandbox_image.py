"""The image of pods' sandboxes is pulled by the rules of the config, for containerd holds it to none."""

import gzip
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.harness.registry import Registry, Store, running_registry
from tests.unit.machined.containerd.twin import MemoryContainerd

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryEndpointConfig, RegistryMirrorConfig
from talos.api.rpc import RpcError
from talos.machined.containerd.client import CRI_SOCKET
from talos.machined.containerd.config import SANDBOX_IMAGE, find_sandbox_image
from talos.machined.node.config_store import publish_config
from talos.machined.services import sandbox_image
from talos.machined.services.sandbox_image import pull_sandbox_image, read_settings
from talos.machined.services.spec import ServiceContext
from talos.resource import ids
from talos.resource.changes import put
from talos.resource.memory.state import MemoryState

PINNED = """[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "pinned.example/pause:1"
"""
OLD = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "old.example/pause:1"
"""
OLDEST = """version = 1
[plugins.cri]
sandbox_image = "oldest.example/pause:1"
"""


@pytest.mark.parametrize(
    ("files", "image"),
    [
        ({"cri.toml": "version = 3"}, SANDBOX_IMAGE),
        ({"cri.toml": PINNED}, "pinned.example/pause:1"),
        ({"cri.toml": PINNED, "cri-2.toml": OLD}, "old.example/pause:1"),
        ({"cri.toml": PINNED, "cri-1.toml": OLDEST}, "oldest.example/pause:1"),
        ({"cri.toml": PINNED, "cri-1.toml": OLDEST, "cri-2.toml": OLD}, "old.example/pause:1"),
        ({"cri.toml": '[plugins]\n"io.containerd.cri.v1.images" = 1'}, SANDBOX_IMAGE),
    ],
)
def test_it_is_the_one_of_containerds_settings(tmp_path: Path, files: Mapping[str, str], image: str) -> None:
    folder = tmp_path / "etc/cri/conf.d"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    assert find_sandbox_image(read_settings(tmp_path)) == image


def make_context(state: MemoryState, twin: MemoryContainerd) -> ServiceContext:
    @asynccontextmanager
    async def connect(path: str) -> AsyncGenerator[Any]:
        assert path == CRI_SOCKET
        yield twin

    context = SimpleNamespace(state=state, connect=connect, processes=SimpleNamespace(capture=None))
    return cast("ServiceContext", context)


async def configure(state: MemoryState, registry: Registry, *rules: Mapping[str, Any]) -> None:
    endpoint = RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{registry.port}")
    mirror = RegistryMirrorConfig(mirror_endpoints=[endpoint], mirror_skip_fallback=True)
    await put(state, *ids.REGISTRY_CONFIG, RegistriesConfigSpec(registry_mirrors={"*": mirror}))
    document = {"apiVersion": "v1alpha1", "kind": "ImageVerificationConfig", "rules": rules}
    await publish_config(state, ids.MACHINE_CONFIG, json.dumps(document).encode())


def read_nothing(_root: Path) -> tuple[()]:
    return ()


async def test_it_is_pulled_once_and_where_there_are_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_image, "read_settings", read_nothing)
    state, twin = MemoryState(), MemoryContainerd(unpack=gzip.decompress, namespace="k8s.io")
    store = Store()
    store.add_image("pause:3.10.2", {"pause": b"1"})
    with running_registry(store) as registry:
        await configure(state, registry)
        await pull_sandbox_image(make_context(state, twin))
        assert twin.images == {}
        await configure(state, registry, {"image": "registry.k8s.io/*", "deny": True})
        with pytest.raises(RpcError, match="verification denied by matched rule"):
            await pull_sandbox_image(make_context(state, twin))
        await configure(state, registry, {"image": "registry.k8s.io/*", "skip": True})
        await pull_sandbox_image(make_context(state, twin))
        assert list(twin.images) == [SANDBOX_IMAGE]
        registry.requests.clear()
        await pull_sandbox_image(make_context(state, twin))
        assert registry.requests == []
