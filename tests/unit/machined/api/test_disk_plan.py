"""What ApplyConfiguration reports of the installation that follows it on an empty machine."""

from typing import Any

import pytest
from tests.unit.machined.api.test_apply_config import FIRST, make_call

from talos.api.definitions import block_pb2
from talos.api.definitions import enums_pb2 as enums
from talos.api.machine import machine_pb2 as pb
from talos.machined.node.config_store import get_config
from talos.resource import ids, kinds
from talos.resource.changes import modify, put
from talos.system.errors import UserError

INSTALL = FIRST.replace(b"cluster:", b"  install:\n    disk: /dev/vda\ncluster:")


async def prepare(caller: Any, metal: Any, *disks: str) -> Any:
    state = metal.node.state
    await modify(state, *ids.DEVICES_STATUS, lambda spec: setattr(spec, "ready", True))
    for name in disks:

        def change(spec: block_pb2.DiskSpec, name: str = name) -> None:
            spec.size, spec.sector_size = 20 << 30, 512
            spec.model, spec.serial, spec.dev_path = "QEMU", "S1", f"/dev/{name}"

        await modify(state, kinds.DISK, name, change)
    return metal


def request(*, dry_run: bool) -> pb.ApplyConfigurationRequest:
    return pb.ApplyConfigurationRequest(data=INSTALL, dry_run=dry_run)


async def test_a_dry_run_shows_the_disk(caller: Any, metal: Any) -> None:
    metal = await prepare(caller, metal, "vda")
    reply = await metal.handler("ApplyConfiguration")(request(dry_run=True), make_call({}))
    details = reply.messages[0].mode_details
    assert "Dry run summary" in details
    assert "will be installed to" in details
    assert all(word in details for word in ("/dev/vda", "QEMU", "S1", "20 GiB"))
    assert await get_config(metal.node.state, ids.MACHINE_CONFIG) is None


async def test_a_disk_that_is_not_there_keeps_the_config_away(caller: Any, metal: Any) -> None:
    metal = await prepare(caller, metal, "sda")
    for dry_run in (True, False):
        with pytest.raises(UserError, match="/dev/vda"):
            await metal.handler("ApplyConfiguration")(request(dry_run=dry_run), make_call({}))
    assert await get_config(metal.node.state, ids.MACHINE_CONFIG) is None


async def test_an_installed_machine_is_not_installed_again(caller: Any, metal: Any) -> None:
    metal = await prepare(caller, metal, "sda")
    await modify(
        metal.node.state,
        kinds.VOLUME_STATUS,
        "META",
        lambda spec: setattr(spec, "phase", enums.VOLUME_PHASE_READY),
    )
    reply = await metal.handler("ApplyConfiguration")(request(dry_run=True), make_call({}))
    assert "installed" not in reply.messages[0].mode_details


async def test_disks_that_are_not_known_yet_are_no_reason_to_refuse(caller: Any, metal: Any) -> None:
    reply = await metal.handler("ApplyConfiguration")(request(dry_run=True), make_call({}))
    assert "disks are not discovered yet" in reply.messages[0].mode_details


ARRAY = """---
apiVersion: v1alpha1
kind: RAIDArrayConfig
name: system
level: raid1
provisioning: {volumeSelector: {match: 'disk.dev_path in ["/dev/vda", "/dev/vdb"]'}}
"""


async def test_a_dry_run_shows_an_array_that_is_made_first(caller: Any, metal: Any) -> None:
    metal = await prepare(caller, metal, "vda", "vdb")
    for name in ("vda", "vdb"):
        spec = block_pb2.DiscoveredVolumeSpec(dev_path=f"/dev/{name}")
        await put(metal.node.state, kinds.DISCOVERED_VOLUME, name, spec)
    data = INSTALL.replace(b"/dev/vda", b"/dev/disk/by-id/md-name-talos:system") + ARRAY.encode()
    call = pb.ApplyConfigurationRequest(data=data, dry_run=True)
    reply = await metal.handler("ApplyConfiguration")(call, make_call({}))
    details = reply.messages[0].mode_details
    assert "will be installed to the RAID array system, which is made first, of" in details
    assert "/dev/vda: 20 GiB" in details
    assert "/dev/vdb: 20 GiB" in details
