"""The mounts that PID 1 makes before anything else. Existing mounts are kept."""

import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import override

from talos.disks.volumes.folders import FOLDERS, RUN, RUN_LINK, Folder, SystemFolders, find_path, find_volume
from talos.machined.node.etc_layer import ETC_LAYER
from talos.system import kernel
from talos.system.folders import make_folder
from talos.system.logging import Log
from talos.system.mounts import HARDENED, MountPoint, Mounts

DEVICE_OPTIONS = ("nosuid", "noexec")
"""Of /dev, whose purpose are device nodes."""

PSEUDO_MOUNTS = (
    MountPoint(source="proc", target="/proc", type="proc"),
    MountPoint(source="sysfs", target="/sys", type="sysfs"),
    MountPoint(source="devtmpfs", target="/dev", type="devtmpfs", options=DEVICE_OPTIONS, data="mode=0755"),
    MountPoint(
        source="devpts",
        target="/dev/pts",
        type="devpts",
        options=("nosuid", "noexec"),
        data="ptmxmode=0666,mode=0620,gid=5",
    ),
    MountPoint(source="tmpfs", target="/dev/shm", type="tmpfs", data="mode=1777"),
    MountPoint(source="mqueue", target="/dev/mqueue", type="mqueue"),
    MountPoint(source="tmpfs", target="/run", type="tmpfs", data="mode=0755"),
    MountPoint(source="tmpfs", target="/system", type="tmpfs", data="mode=0755"),
    MountPoint(source="tmpfs", target="/tmp", type="tmpfs", data="mode=1777,size=64m"),
)
METAL_MOUNTS = (
    MountPoint(source="hugetlbfs", target="/dev/hugepages", type="hugetlbfs"),
    MountPoint(source="bpf", target="/sys/fs/bpf", type="bpf", data="mode=0700"),
    MountPoint(source="securityfs", target="/sys/kernel/security", type="securityfs"),
    MountPoint(source="tracefs", target="/sys/kernel/tracing", type="tracefs"),
    MountPoint(source="configfs", target="/sys/kernel/config", type="configfs"),
    MountPoint(source="debugfs", target="/sys/kernel/debug", type="debugfs"),
    MountPoint(source="pstore", target="/sys/fs/pstore", type="pstore"),
    MountPoint(source="efivarfs", target="/sys/firmware/efi/efivars", type="efivarfs"),
    MountPoint(source="cgroup2", target="/sys/fs/cgroup", type="cgroup2", data="nsdelegate"),
)
"""Optional: a kernel or a firmware may lack any of them."""

SYSTEM_DIRECTORIES = (
    ("/run/lock", 0o755),
    ("/system/etc", 0o755),
    ("/system/run", 0o755),
    ("/system/secrets", 0o700),
    ("/system/config", 0o700),
    ("/system/state", 0o700),
)
ETC_TMPFS = ("/etc/cni", "/etc/kubernetes", "/etc/containerd", "/etc/cri")
"""Folders in /etc whose content is written at run time."""
ETC = "/etc"
OPT, OVERLAYS = "/opt", Path("/var/system/overlays")
"""The folder of the image that others add programs to, and where these lie; both as upstream."""


def mount_pseudo(mounts: Mounts, *, has_kernel: bool, log: Log) -> None:
    """The kernel's filesystems and those in memory."""
    present = _targets(mounts)
    for point in PSEUDO_MOUNTS:
        if point.target not in present:
            mounts.mount(point)
    for point in METAL_MOUNTS if has_kernel else ():
        if point.target not in present:
            try:
                mounts.mount(point)
            except OSError as error:  # no EFI, or the kernel is locked down: not worth a warning
                log.debug("not mounted", target=point.target, reason=error.strerror)
    try:
        mount_etc(mounts)
    except OSError as error:  # in a container whose root is an overlay of overlays
        log.warning("no file can be added to /etc", reason=error.strerror)
    present = _targets(mounts)
    for target in ETC_TMPFS:
        if target not in present and Path(target).is_dir():
            mounts.mount(MountPoint(source="tmpfs", target=target, type="tmpfs", data="mode=0755,size=16m"))


def mount_etc(mounts: Mounts) -> None:
    """Put a layer in memory above /etc, before anything else is mounted there. OSError.

    /etc itself stays read-only for everybody: PID 1 writes by another mount of the same filesystem, which no
    other user may reach. All processes see what it writes there, whatever view of mounts they have.
    """
    if ETC in _targets(mounts):
        return
    mounts.mount(
        MountPoint(source="tmpfs", target=str(ETC_LAYER.folder), type="tmpfs", data="mode=0700,size=8m")
    )
    upper, work = ETC_LAYER.folder / "diff", ETC_LAYER.folder / "workdir"
    for path, mode in ((upper, 0o755), (work, 0o700), (ETC_LAYER.image, 0o755), (ETC_LAYER.writable, 0o755)):
        make_folder(path, mode)
    # Where the root is shared, as in a container, the layer above /etc would appear above its copy, too.
    mounts.bind(ETC, str(ETC_LAYER.image), read_only=True, private=True)
    data = f"lowerdir={ETC},upperdir={upper},workdir={work}"
    mounts.mount(MountPoint(source="overlay", target=str(ETC_LAYER.writable), type="overlay", data=data))
    mounts.bind(str(ETC_LAYER.writable), ETC, read_only=True)


def _targets(mounts: Mounts) -> frozenset[str]:
    try:
        return frozenset(mount.target for mount in mounts.list())
    except FileNotFoundError:  # no /proc yet
        return frozenset()


def make_system_directories() -> None:
    """Folders in memory."""
    for path, mode in SYSTEM_DIRECTORIES:
        make_folder(Path(path), mode)


def make_var_directories(dedicated: Collection[str], log: Log) -> None:
    """Folders on EPHEMERAL, which is mounted by now, but for those of ``dedicated`` volumes."""
    for folder in FOLDERS:
        if not find_volume(folder, dedicated):
            try:
                _make_folder(folder)
            except PermissionError as error:  # the mount point of a partition that the config had once
                path, reason = find_path(folder), str(error.strerror)
                log.warning("a folder can't be used without its VolumeConfig", folder=path, reason=reason)
    link_run(Path(RUN_LINK), RUN)


class VarFolders(SystemFolders):
    """Those below /var."""

    @override
    def is_used(self, path: str) -> bool:
        folder = Path(path)
        return folder.is_dir() and any(folder.iterdir())

    @override
    def make(self, volume: str) -> None:
        for folder in FOLDERS:
            if find_volume(folder, [volume]):
                _make_folder(folder)


def _make_folder(folder: Folder) -> None:
    make_folder(Path(find_path(folder)), folder.mode, owner=folder.owner)


def link_run(link: Path, target: str) -> None:
    """Make /var/run a link into memory: runtimes keep network namespaces and sockets there by its old name.

    What a release without the link left there on the disk is of an earlier boot.
    """
    if link.is_symlink():
        return
    if link.is_dir():
        shutil.rmtree(link)
    link.symlink_to(target)


def mount_opt(mounts: Mounts) -> None:
    """Let what pods install in /opt, such as a network's plugins, lie on EPHEMERAL, above what the image has.

    OSError.
    """
    if any(mount.target == OPT for mount in mounts.list()):
        return
    make_folder(OVERLAYS.parent, 0o700)
    upper, work = OVERLAYS / "opt-diff", OVERLAYS / "opt-workdir"
    make_folder(upper, 0o755)
    make_folder(work, 0o700)
    data = f"lowerdir={OPT},upperdir={upper},workdir={work}"
    mounts.mount(
        MountPoint(source="overlay", target=OPT, type="overlay", options=("nosuid", "nodev"), data=data)
    )


def make_missing_directory(path: str, mode: int) -> None:
    """A folder that can be written to, unless there is one: its owner may have changed it."""
    if not Path(path).is_dir():
        make_folder(Path(path), mode)
    with suppress(OSError):  # not every filesystem has the flag of a guarded mount point
        kernel.set_immutable(path, immutable=False)


EXEMPT = {
    "/dev": {"nodev"},
    "/dev/pts": {"nodev"},
    "/var": {"noexec"},
    "/var/lib/containerd": {"noexec"},
    "/var/lib/kubelet": {"noexec"},
    OPT: {"noexec"},
}
"""Writable mounts that may lack an option: devices are what /dev is for, containers run from /var, and
containerd runs what lies in /opt."""


def check_hardening(mounts: Mounts) -> list[str]:
    """Writable mounts that lack an option of nosuid, nodev, noexec without being exempt."""
    findings: list[str] = []
    for mount in mounts.list():
        missing = set(HARDENED) - set(mount.options) - EXEMPT.get(mount.target, set())
        if "rw" in mount.options and missing:
            findings.append(f"{mount.target} lacks {', '.join(sorted(missing))}")
    return findings
