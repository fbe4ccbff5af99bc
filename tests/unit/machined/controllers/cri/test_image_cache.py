"""The cache of images: registryd runs while it is configured and there, and is then tried first."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, override

import pytest
import trio
from tests.harness.limits import REAL_TIMEOUT
from tests.unit.machined.controllers.running import running

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.v1alpha1_pb2 import ServiceSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.config.effective.machine import is_image_cache_enabled
from talos.config.read.loader import load
from talos.disks.image_cache import CacheDisks
from talos.images.registry.hosts import find_endpoints
from talos.machined.containerd import cache
from talos.machined.containerd.pull import read_sources
from talos.machined.controllers.cri import image_cache
from talos.machined.controllers.cri.image_cache import ImageCacheConfigController
from talos.machined.controllers.cri.registries import RegistriesConfigController
from talos.resource import ids, kinds
from talos.resource.changes import modify, put, wait_for
from talos.resource.memory.state import MemoryState
from talos.system.errors import UserError
from talos.system.logging import Log
from talos.system.net.proxies import find_proxy
from talos.testing.mounts import MemoryMounts

MACHINE = "version: v1alpha1\nmachine:\n  registries:\n    mirrors:\n      a.example: {endpoints: ['http://mirror']}\n"
DOCUMENT = "---\napiVersion: v1alpha1\nkind: ImageCacheConfig\nlocal: {enabled: %s}\n"
CACHE = "http://127.0.0.1:3172/v2"
DISABLED, PREPARING, READY = (
    enums.IMAGE_CACHE_STATUS_DISABLED,
    enums.IMAGE_CACHE_STATUS_PREPARING,
    enums.IMAGE_CACHE_STATUS_READY,
)


class Services:
    """Those that were started and halted, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start_soon(self, ids: list[str]) -> None:
        self.calls.append(f"start {' '.join(ids)}")

    async def halt(self, id: str) -> None:
        self.calls.append(f"halt {id}")


def make_controller(
    services: Services, disks: CacheDisks | None, disk: Path, medium: Path
) -> ImageCacheConfigController:
    return ImageCacheConfigController(cast("Any", services), disks, Log(write=lambda _: None), (disk, medium))


async def configure(state: MemoryState, text: str) -> None:
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=text.encode()))


async def wait_for_status(state: MemoryState, status: int, *roots: Path) -> None:
    wanted = (status, [str(root) for root in roots])
    await wait_for(
        state, *ids.IMAGE_CACHE_CONFIG, lambda one: (one.spec.status, list(one.spec.roots)) == wanted
    )


def list_bases(registries: Any, registry: str) -> list[str]:
    return [endpoint.base for endpoint in find_endpoints(registries, registry)]


async def test_it_is_served_while_it_is_wanted(tmp_path: Path) -> None:
    state, services = MemoryState(), Services()
    disk = tmp_path / "disk"
    (disk / "manifests").mkdir(parents=True)
    controller = make_controller(services, None, disk, tmp_path / "none")
    async with running(state, controller, RegistriesConfigController()):
        await configure(state, MACHINE)
        await wait_for_status(state, DISABLED)
        assert services.calls == []
        await configure(state, MACHINE + DOCUMENT % "true")
        await wait_for_status(state, PREPARING, disk)
        # A pull waits until it is served, and is then for the cache, whatever its registry.
        async with trio.open_nursery() as nursery:
            found = list[Any]()

            async def read() -> None:
                found.append(await read_sources(state))

            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            assert not found
            await put(state, kinds.SERVICE, "registryd", ServiceSpec(running=True, healthy=True))
            await wait_for_status(state, READY, disk)
        assert list_bases(found[0].registries, "a.example") == [
            CACHE,
            "http://mirror/v2",
            "https://a.example/v2",
        ]
        assert list_bases(found[0].registries, "b.example") == [CACHE, "https://b.example/v2"]
        await configure(state, MACHINE + DOCUMENT % "false")
        await wait_for_status(state, DISABLED)
        await wait_for(state, *ids.REGISTRY_CONFIG, lambda one: "*" not in one.spec.registry_mirrors)
        while len(services.calls) < 2:
            await trio.testing.wait_all_tasks_blocked()
    assert services.calls == ["start registryd", "halt registryd"]


async def test_a_cache_that_is_not_there_is_off(tmp_path: Path) -> None:
    state, services = MemoryState(), Services()
    async with running(state, make_controller(services, None, tmp_path, tmp_path)):
        await configure(state, MACHINE + DOCUMENT % "true")
        await wait_for_status(state, DISABLED)
    assert services.calls == []


async def test_a_pull_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "READY_TIMEOUT", 0.01)
    state = MemoryState()
    await put(state, *ids.IMAGE_CACHE_CONFIG, kinds.IMAGE_CACHE_CONFIG.spec(status=PREPARING))
    assert not (await read_sources(state)).registries.registry_mirrors


async def test_no_proxy_is_used_for_the_cache() -> None:
    state = MemoryState()
    variables = {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": ".internal"}
    await put(
        state, *ids.ENVIRONMENT, kinds.ENVIRONMENT.spec(variables=[f"{k}={v}" for k, v in variables.items()])
    )
    environment = (await read_sources(state)).environment
    assert find_proxy("http", "127.0.0.1", environment) == ""
    assert find_proxy("http", "a.internal", environment) == ""
    assert find_proxy("http", "registry.example", environment) == "http://proxy:3128"


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ("machine: {}\n", False),
        ("machine: {features: {imageCache: {localEnabled: true}}}\n", True),
        ("machine: {features: {imageCache: {localEnabled: true}}}\n" + DOCUMENT % "false", False),
        ("machine: {}\n" + DOCUMENT % "true", True),
    ],
)
def test_both_forms_of_the_switch(text: str, enabled: bool) -> None:
    assert is_image_cache_enabled(load(f"version: v1alpha1\n{text}".encode())) == enabled


class Disks(CacheDisks):
    """A medium whose copy fails while ``full``, and does not end while it is ``slow``."""

    def __init__(self) -> None:
        super().__init__(MemoryMounts())
        self.mounted: list[str] = []
        self.full = self.is_slow = False
        self.stopped = threading.Event()

    @override
    def mount_medium(self, device: str) -> None:
        self.mounted.append(device)

    @override
    def copy(self, source: Path, target: Path, is_stopped: Callable[[], bool]) -> int:
        if self.full:
            raise UserError("no room")
        while self.is_slow and not is_stopped():
            time.sleep(0.001)
        if is_stopped():
            self.stopped.set()
        return super().copy(source, target, is_stopped)


async def discover(state: MemoryState) -> None:
    """What udevd writes of a machine that was started from the medium."""

    def change(spec: block_pb2.DiscoveredVolumeSpec) -> None:
        spec.name, spec.label, spec.dev_path = "iso9660", "TALOS", "/dev/sr0"

    await modify(state, kinds.DISCOVERED_VOLUME, "sr0", change)
    await modify(state, *ids.DEVICES_STATUS, lambda spec: setattr(spec, "ready", True))


async def set_volume(state: MemoryState, phase: enums.BlockVolumePhase) -> None:
    await modify(state, kinds.VOLUME_STATUS, "IMAGECACHE", lambda spec: setattr(spec, "phase", phase))
    if phase == enums.VOLUME_PHASE_READY:
        mounted = "block.VolumeConfigController-IMAGECACHE"
        await modify(
            state, kinds.VOLUME_MOUNT_STATUS, mounted, lambda spec: setattr(spec, "volume_id", "IMAGECACHE")
        )


async def test_a_mediums_cache_is_served_and_copied_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_cache, "COPY_RETRY_DELAY", 0.01)
    state, services, disks = MemoryState(), Services(), Disks()
    disk, medium = tmp_path / "disk", tmp_path / "medium"
    disks.full = True
    async with running(state, make_controller(services, disks, disk, medium)):
        await configure(state, MACHINE + DOCUMENT % "true")
        await wait_for_status(state, PREPARING)
        (medium / "manifests").mkdir(parents=True)
        await discover(state)
        await set_volume(state, enums.VOLUME_PHASE_MISSING)
        await wait_for_status(state, PREPARING, medium)
        await put(state, kinds.SERVICE, "registryd", ServiceSpec(running=True, healthy=True))
        await wait_for_status(state, READY, medium)
        cache = (await state.get(*ids.IMAGE_CACHE_CONFIG)).spec
        assert cache.copy_status == enums.IMAGE_CACHE_COPY_STATUS_SKIPPED
        (medium / "manifests/tag").write_bytes(b"1")
        disk.mkdir()
        await set_volume(state, enums.VOLUME_PHASE_READY)
        failed = await wait_for(state, kinds.DIAGNOSTIC, "image-cache", lambda _: True)
        assert list(failed.spec.details) == ["no room"]
        disks.full = False
        await wait_for_copy(state, enums.IMAGE_CACHE_COPY_STATUS_READY)
        await wait_for_status(state, READY, disk, medium)
        assert not await state.list(kinds.DIAGNOSTIC)
    assert set(disks.mounted) == {"/dev/sr0"}
    assert (disk / "manifests/tag").read_bytes() == b"1"


async def test_a_copy_ends_when_the_cache_is_not_wanted_any_more(tmp_path: Path) -> None:
    state, disks = MemoryState(), Disks()
    disk, medium = tmp_path / "disk", tmp_path / "medium"
    (medium / "manifests").mkdir(parents=True)
    disk.mkdir()
    disks.is_slow = True
    async with running(state, make_controller(Services(), disks, disk, medium)):
        await configure(state, MACHINE + DOCUMENT % "true")
        await discover(state)
        await set_volume(state, enums.VOLUME_PHASE_READY)
        await wait_for_copy(state, enums.IMAGE_CACHE_COPY_STATUS_PENDING)
        await configure(state, MACHINE + DOCUMENT % "false")
        await wait_for_copy(state, enums.IMAGE_CACHE_COPY_STATUS_SKIPPED)
        assert await trio.to_thread.run_sync(disks.stopped.wait, REAL_TIMEOUT)


async def wait_for_copy(state: MemoryState, status: enums.CriImageCacheCopyStatus) -> None:
    await wait_for(state, *ids.IMAGE_CACHE_CONFIG, lambda one: one.spec.copy_status == status)


async def test_a_machine_without_a_cache(tmp_path: Path) -> None:
    state, services = MemoryState(), Services()
    async with running(state, make_controller(services, Disks(), tmp_path, tmp_path)):
        await configure(state, MACHINE + DOCUMENT % "true")
        await wait_for_status(state, PREPARING)
        await modify(state, *ids.DEVICES_STATUS, lambda spec: setattr(spec, "ready", True))
        await set_volume(state, enums.VOLUME_PHASE_MISSING)
        await wait_for_status(state, DISABLED)
    assert services.calls == []
