"""SeccompProfile: the user's filters of system calls, as files that pods name by ``localhostProfile``.

https://kubernetes.io/docs/tutorials/security/seccomp/
"""

import json
import os
from pathlib import Path

import trio

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cri_pb2 import SeccompProfileSpec
from talos.config.active import read_config
from talos.config.effective import machine as effective
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import to_plain, to_struct
from talos.system.block.layout import EPHEMERAL
from talos.system.files import replace_durably
from talos.system.folders import opening_folder
from talos.system.regular import read_regular

FOLDER = Path("/var/lib/kubelet/seccomp/profiles")


class SeccompProfileController(Reconciler):
    """MachineConfig → SeccompProfile, one for each that the config names."""

    name = "cri.SeccompProfileController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.SECCOMP_PROFILE),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write what there is, and remove the others."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            for name, value in effective.seccomp_profiles(config).items() if config else ():
                spec = SeccompProfileSpec(name=name, value=to_struct(value))
                await runtime.put(kinds.SECCOMP_PROFILE, name, spec)


class SeccompProfileFileController(Reconciler):
    """SeccompProfile → a file each, while there is a disk for them; other files there are removed."""

    name = "cri.SeccompProfileFileController"
    inputs = (Input(kinds.SECCOMP_PROFILE), Input(kinds.VOLUME_MOUNT_STATUS), Input(kinds.VOLUME_STATUS))

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write files whose content differs."""
        mounts = await runtime.list(kinds.VOLUME_MOUNT_STATUS)
        if not any(mount.spec.volume_id == EPHEMERAL.label for mount in mounts):
            return
        kubelet = await runtime.get_or_none(kinds.VOLUME_STATUS, "KUBELET")
        if kubelet is None or kubelet.spec.phase != enums.VOLUME_PHASE_READY:
            return
        profiles = await runtime.list(kinds.SECCOMP_PROFILE)
        files = {one.spec.name: json.dumps(to_plain(one.spec.value)).encode() for one in profiles}
        await trio.to_thread.run_sync(write_profiles, self._folder, files)


def write_profiles(folder: Path, files: dict[str, bytes]) -> None:
    """Have these files in the folder, and no others. OSError.

    Pods that mount the kubelet's folder write there: links in the folder, and to it, are not followed.
    """
    if not files and not os.path.lexists(folder):
        return
    with opening_folder(folder, 0o755) as place:
        opened = Path(f"/proc/self/fd/{place}")
        for path in [*opened.iterdir()]:
            if path.name not in files and (path.is_symlink() or not path.is_dir()):
                path.unlink()
        for name, content in files.items():
            if read_regular(opened / name, 0, len(content) + 1) != content:
                replace_durably(opened / name, [content], mode=0o644)
