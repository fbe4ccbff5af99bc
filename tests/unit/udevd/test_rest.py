"""udevd at rest."""

from pathlib import Path

from tests.harness.rest import CountingState, check_rest
from tests.unit.udevd.fake_sysfs import FakeSysfs
from tests.unit.udevd.test_devices import GPT, XFS, World
from tests.unit.udevd.test_state import FakeUevents

from talos.api.definitions.block_pb2 import DiscoveryRefreshRequestSpec
from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.resource import ids
from talos.resource.changes import put
from talos.system.logging import Log
from talos.udevd.controllers import make_controllers
from talos.udevd.hub import Hub

CONFIG = b"""
version: v1alpha1
machine:
  udev:
    rules: ['KERNEL=="vda", SYMLINK+="mine"']
"""


async def test_nothing_is_written_without_a_change(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    world = World(FakeSysfs(tmp_path / "sys"), tmp_path / "dev")
    disk = world.virtio_disk("vda", 5, serial="root")
    world.fake.partition(disk, 2, 82)
    world.node("vda2")
    world.contents |= {"vda": GPT, "vda2": XFS}
    state, hub = CountingState(), Hub(world.devices, FakeUevents())
    await put(state, *ids.MACHINE_CONFIG, MachineConfigSpec(yaml_marshalled=CONFIG))
    await put(state, *ids.DISCOVERY_REFRESH_REQUEST, DiscoveryRefreshRequestSpec(request=3))
    await check_rest(state, make_controllers(hub, Log(write=lambda _: None)), beside=[hub.run])
