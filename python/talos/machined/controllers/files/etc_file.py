"""Files in /etc that change while the node runs: written to /system/etc, bound over the image's."""

import logging
import os
from pathlib import Path

from talos.api.definitions.files_pb2 import EtcFileStatusSpec
from talos.resource import kinds
from talos.resource.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.mounts import Mounts

log = logging.getLogger(__name__)

SHADOW = Path("/system/etc")
ETC = Path("/etc")


class EtcFileController(Reconciler):
    """Writes every EtcFileSpec to its file, and an EtcFileStatus when that is done.

    The image must have a file of the name for the bind mount, empty or not.
    """

    name = "files.EtcFileController"
    inputs = (Input(kinds.ETC_FILE_SPEC),)
    outputs = (Output(kinds.ETC_FILE_STATUS),)

    def __init__(self, mounts: Mounts, shadow: Path = SHADOW, etc: Path = ETC) -> None:
        self._mounts = mounts
        self._shadow = shadow
        self._etc = etc

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what differs."""
        bound = {mount.target for mount in self._mounts.list()}
        async with runtime.track_outputs():
            for resource in await runtime.list(kinds.ETC_FILE_SPEC):
                file, target = self._shadow / resource.id, self._etc / resource.id
                write_file(file, resource.spec.contents, resource.spec.mode)
                if str(target) not in bound:
                    self._mounts.bind(str(file), str(target), read_only=True)
                    log.info("%s is made by us", target)
                status = EtcFileStatusSpec(spec_version=str(resource.metadata.version))
                await runtime.modify(
                    kinds.ETC_FILE_STATUS, resource.id, lambda spec, new=status: spec.CopyFrom(new)
                )


def write_file(file: Path, contents: bytes, mode: int) -> None:
    """Write a file in place: a new one in its stead would not be seen through the bind mount."""
    file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if file.exists() and file.read_bytes() == contents:
        return
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
        # One write, then the end: a reader sees the old text or the new one, if it reads at once.
        os.pwrite(descriptor, contents, 0)
        os.ftruncate(descriptor, len(contents))
    finally:
        os.close(descriptor)
