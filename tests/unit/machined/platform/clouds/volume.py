"""A cloud's machine with a volume, and perhaps with a metadata server."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.unit.machined.platform.clouds.cloud import FakeServer, make_cloud_source
from tests.unit.machined.platform.machine import Machine, Volumes

from talos.machined.platform.clouds.cloud import Source
from talos.resource import ids
from talos.resource.changes import modify
from talos.resource.memory.state import MemoryState


async def make_volume_source(
    folder: Path, label: str, files: Mapping[str, str], server: FakeServer | None = None
) -> Source:
    """Where such a machine looks after the scan of its devices; without a label there is no volume."""
    source = await make_cloud_source(server or FakeServer({}))
    state = source.volume.state
    assert isinstance(state, MemoryState)
    await modify(state, *ids.DEVICES_STATUS, lambda spec: setattr(spec, "ready", True))
    machine = Machine(folder, state=state)
    if label:
        await machine.attach(label)
    mounts = Volumes(files={name: text.encode() for name, text in files.items()})
    return machine.place_volume(replace(source, volume=replace(source.volume, mounts=mounts)))
