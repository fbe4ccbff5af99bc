"""Pulling: everything is there before the name is, and nothing stays of a pull that fails."""

import gzip
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import trio
from tests.harness.registry import Registry, Store, running_registry
from tests.unit.machined.containerd.twin import MemoryContainerd
from tests.unit.machined.containerd.verify.verifier import make_verifier

from talos.api.definitions.cri_pb2 import RegistriesConfigSpec, RegistryEndpointConfig, RegistryMirrorConfig
from talos.api.rpc import RpcError
from talos.images.registry.hosts import Sources
from talos.machined.containerd import store
from talos.machined.containerd.client import Containerd
from talos.machined.containerd.pull import Admit, LayerProgress, Step, admit_all, pull_image
from talos.machined.containerd.store import Image, find_image
from talos.system.errors import UserError
from talos.upgrade.release.archive import MANIFEST as RELEASE

NAME = "registry.example/team/app:1"


@pytest.fixture
def registry() -> Iterator[Registry]:
    store = Store()
    store.add_image("team/app:1", {"a": b"1" * 300_000}, {"b": b"2"})
    with running_registry(store) as running:
        yield running


def make_twin() -> MemoryContainerd:
    return MemoryContainerd(unpack=gzip.decompress)


async def pull_from(
    registry: Registry,
    twin: MemoryContainerd,
    report: Callable[[LayerProgress], None] = lambda _: None,
    *,
    name: str = NAME,
    admit: Admit = admit_all,
) -> Image:
    endpoint = RegistryEndpointConfig(endpoint_endpoint=f"http://127.0.0.1:{registry.port}")
    mirror = RegistryMirrorConfig(mirror_endpoints=[endpoint], mirror_skip_fallback=True)
    sources = Sources(registries=RegistriesConfigSpec(registry_mirrors={"*": mirror}))
    containerd = Containerd(cast("Any", twin), "system")
    return await pull_image(
        containerd, name, sources, root="/", verifier=make_verifier(), report=report, admit=admit
    )


async def test_a_pull(registry: Registry) -> None:
    twin, reported = make_twin(), list[LayerProgress]()
    image = await pull_from(registry, twin, reported.append)
    assert image.name == NAME
    assert list(twin.images) == [NAME]
    assert list(twin.snapshots.items()) == [
        (image.config.chain_ids[0], ""),
        (image.config.chain_ids[1], image.config.chain_ids[0]),
    ]
    assert twin.pending == []
    # What the collector of garbage follows: from the index to the snapshot.
    index = twin.images[NAME].digest
    manifest = twin.labels[index]["containerd.io/gc.ref.content.m.0"]
    labels = twin.labels[manifest]
    config = labels["containerd.io/gc.ref.content.config"]
    assert {labels[f"containerd.io/gc.ref.content.l.{n}"] for n in (0, 1)} == {
        layer.digest for layer in image.manifest.layers
    }
    assert twin.labels[config]["containerd.io/gc.ref.snapshot.overlayfs"] == image.snapshot
    steps = [progress.step for progress in reported if progress.layer == image.manifest.layers[0].digest]
    assert (steps[0], steps[-3:]) == (Step.DOWNLOADING, [Step.DOWNLOADED, Step.EXTRACTING, Step.EXTRACTED])
    assert await find_image(Containerd(cast("Any", twin), "system"), NAME) == image
    # Once more: only manifests are fetched, nothing is unpacked, the name stays.
    registry.requests.clear()
    await pull_from(registry, twin)
    assert not [request for request in registry.requests if "/blobs/" in request]
    assert len(twin.applied) == 2


FAILING = (
    "Leases/Create",
    "Content/Write",
    "Content/Update",
    "Content/Read",
    "Snapshots/Stat",
    "Snapshots/Prepare",
    "Snapshots/Commit",
    "Images/Create",
)


@pytest.mark.parametrize("failing", FAILING)
async def test_nothing_stays_of_a_pull_that_fails(registry: Registry, failing: str) -> None:
    twin = make_twin()
    twin.failing = failing
    with pytest.raises(RpcError, match="no space left on device"):
        await pull_from(registry, twin)
    assert (twin.images, twin.pending) == ({}, [])
    assert failing in twin.calls


async def test_a_layer_for_which_containerd_has_no_room(registry: Registry) -> None:
    twin = make_twin()
    twin.failing = "Diff/Apply"
    with pytest.raises(UserError, match=r"layer sha256:.*takes more when unpacked than .* has room for"):
        await pull_from(registry, twin)
    assert (twin.images, twin.pending) == ({}, [])


async def test_nothing_stays_of_a_pull_that_is_cancelled(registry: Registry) -> None:
    twin = make_twin()
    with trio.CancelScope() as scope:
        await pull_from(registry, twin, lambda progress: scope.cancel() if progress.offset else None)
    assert scope.cancelled_caught
    assert (twin.images, twin.pending, twin.cancelled) == ({}, [], set())
    assert "Content/Abort" in twin.calls


async def test_a_layer_that_unpacks_to_something_else(registry: Registry) -> None:
    twin = make_twin()
    twin.unpack = lambda data: gzip.decompress(data) + b"!"
    with pytest.raises(UserError, match=rf"image {NAME}: layer sha256:.* unpacks to sha256:"):
        await pull_from(registry, twin)
    assert (twin.images, twin.snapshots, twin.pending) == ({}, {}, [])


async def test_an_image_that_does_not_fit(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "RESERVE", 1 << 60)
    twin = make_twin()
    with pytest.raises(UserError, match=r"it takes [0-9]+ bytes, of 0 that / has room for"):
        await pull_from(registry, twin)
    assert not twin.calls


RELEASE_NAME = "registry.example/team/release:1"


@pytest.mark.parametrize(("layers", "compress"), [(1, True), (2, False), (0, False)])
async def test_a_release_that_could_grow_is_refused_before_it_is_fetched(
    registry: Registry, layers: int, *, compress: bool
) -> None:
    content = [{f"usr/{number}": b"\0" * 100_000} for number in range(layers)]
    registry.store.add_image("team/release:1", *content, compress=compress, annotations={RELEASE: ""})
    twin = make_twin()
    with pytest.raises(UserError, match="a release has one layer, which is not compressed"):
        await pull_from(registry, twin, name=RELEASE_NAME)
    assert not [request for request in registry.requests if "/blobs/" in request]
    assert not twin.calls


async def test_a_release_is_not_unpacked(registry: Registry) -> None:
    """A layer that is declared as plain may be compressed nevertheless, or have holes."""
    registry.store.add_image("team/release:1", {"usr/a": b"1"}, compress=False, annotations={RELEASE: ""})
    twin = make_twin()
    image = await pull_from(registry, twin, name=RELEASE_NAME)
    assert list(twin.images) == [RELEASE_NAME]
    assert image.manifest.layers[0].digest in twin.content
    assert (twin.applied, twin.snapshots) == ([], {})


async def test_what_is_not_admitted_is_not_fetched(registry: Registry) -> None:
    async def refuse(data: bytes, where: str) -> None:
        assert b'"layers"' in data
        await trio.lowlevel.checkpoint()
        raise UserError("is not signed", where=where)

    with pytest.raises(UserError, match=f"image {NAME}: is not signed"):
        await pull_from(registry, make_twin(), admit=refuse)
    assert not [request for request in registry.requests if "/blobs/" in request]


async def test_an_image_whose_parts_are_gone_is_not_there(registry: Registry) -> None:
    twin = make_twin()
    image = await pull_from(registry, twin)
    del twin.content[image.manifest.config.digest]
    assert await find_image(Containerd(cast("Any", twin), "system"), NAME) is None
    assert await find_image(Containerd(cast("Any", twin), "system"), "registry.example/other:1") is None
