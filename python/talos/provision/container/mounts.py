"""What a node sees when its PID 1 begins: its root, and the kernel's file systems on it.

On metal the kernel and PID 1 make these mounts. Here the launcher makes those that keep the
node from the machine below it; PID 1 leaves alone what is mounted already.
"""

import os
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path

from talos.images.cache.places import DISK
from talos.provision.host.cgroups import Hierarchy
from talos.system import kernel

# <linux/kdev_t.h> numbers of Documentation/admin-guide/devices.txt, with their modes.
DEVICES = {
    "null": (1, 3, 0o666),
    "zero": (1, 5, 0o666),
    "full": (1, 7, 0o666),
    "random": (1, 8, 0o666),
    "urandom": (1, 9, 0o666),
    "kmsg": (1, 11, 0o600),
    "tty": (5, 0, 0o666),
    "fuse": (10, 229, 0o666),
}
DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
# Trees of /proc/sys that the namespaces don't separate (net is separated).
GLOBAL_SYSCTLS = ("abi", "debug", "dev", "fs", "kernel", "user", "vm")
# What the kubelet and machined write there: over each is a file of the node's own that has this value.
SHADOWED_SYSCTLS = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}


MASKED = ("kallsyms", "kcore", "kmsg")
"""Files of /proc that are empty on a node: they are the kernel's below, and reading kmsg consumes its log."""

_HARDENED = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMounts:
    """What the mounts are made from. ``image``, ``layers`` and ``disk`` are block devices.

    ``layers`` are the extensions below the system image, the first one topmost; ``slot`` is in ``slots``.
    ``image_cache`` is a folder in the flat layout.
    """

    root: Path
    image: Path
    layers: tuple[Path, ...]
    disk: Path
    state_partition: Path
    slots: Path
    slot: str
    hierarchies: tuple[Hierarchy, ...]
    cmdline: str
    network: str
    config: str
    image_cache: Path | None = None


def mount_node(mounts: NodeMounts) -> None:
    """Make all mounts, in the new PID 1's own mount namespace, before pivot_root."""
    root = mounts.root
    _mount_image(mounts)
    _mount(mounts.disk, root / "var", "xfs", kernel.MS_NOSUID | kernel.MS_NODEV)
    # As the early init of a machine shows its initramfs.
    _bind(mounts.slots / mounts.slot, root / "usr/install", read_only=True)
    _mount_system(mounts)
    _mount_dev(root / "dev")
    _mount_proc(root)
    _mount("sysfs", root / "sys", "sysfs", _HARDENED | kernel.MS_RDONLY)
    mount_cgroups(root / "sys/fs/cgroup", mounts.hierarchies)


def _mount_image(mounts: NodeMounts) -> None:
    """The system image, over its extensions, as the early init of a machine mounts them."""
    flags = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    if not mounts.layers:
        _mount(mounts.image, mounts.root, "squashfs", flags)
        return
    # The overlay covers it, and it goes with the old root.
    _mount("tmpfs", mounts.root, "tmpfs", _HARDENED, "mode=0755,size=64k")
    names = ["system", *map(str, range(len(mounts.layers)))]
    for name, device in zip(names, (mounts.image, *mounts.layers), strict=True):
        (mounts.root / name).mkdir(mode=0o755)
        _mount(device, mounts.root / name, "squashfs", flags)
    # Names without the path to them, which may hold a colon, and would be too long for so many layers.
    os.chdir(mounts.root)
    _mount("overlay", mounts.root, "overlay", flags, f"lowerdir={':'.join(names)}")
    os.chdir("/")


def _mount_system(mounts: NodeMounts) -> None:
    system = mounts.root / "system"
    _mount("tmpfs", system, "tmpfs", _HARDENED, "mode=0755")
    (system / "state").mkdir(mode=0o700)
    _bind_hardened(mounts.state_partition, system / "state")
    if mounts.image_cache is not None:
        cache = mounts.root / DISK.relative_to("/")
        cache.mkdir(mode=0o755, parents=True)
        _mount(mounts.image_cache, cache, flags=kernel.MS_BIND)
        flags = kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY | _HARDENED
        _mount("none", cache, flags=flags)
    platform = system / "platform"
    platform.mkdir(mode=0o700)
    (platform / "slots").mkdir(mode=0o700)
    _bind_hardened(mounts.slots, platform / "slots")
    write_private(platform / "cmdline", mounts.cmdline)
    write_private(platform / "network.yaml", mounts.network)
    if mounts.config:
        write_private(platform / "config.yaml", mounts.config)


def _mount_dev(dev: Path) -> None:
    # Never devtmpfs: there is one for the whole kernel.
    _mount("tmpfs", dev, "tmpfs", kernel.MS_NOSUID | kernel.MS_NOEXEC, "mode=0755,size=64k,nr_inodes=1k")
    for name, (major, minor, mode) in DEVICES.items():
        os.mknod(dev / name, stat.S_IFCHR | mode, os.makedev(major, minor))
        (dev / name).chmod(mode)
    for name, target in DEVICE_LINKS.items():
        (dev / name).symlink_to(target)
    for name in ("pts", "shm", "mqueue"):
        (dev / name).mkdir()
    _mount(
        "devpts",
        dev / "pts",
        "devpts",
        kernel.MS_NOSUID | kernel.MS_NOEXEC,
        "newinstance,ptmxmode=0666,mode=0620,gid=5",
    )
    _mount("tmpfs", dev / "shm", "tmpfs", _HARDENED, "mode=1777,size=64m")
    _mount("mqueue", dev / "mqueue", "mqueue", _HARDENED)


def _mount_proc(root: Path) -> None:
    proc = root / "proc"
    _mount("proc", proc, "proc", _HARDENED)
    sys = proc / "sys"
    for name in GLOBAL_SYSCTLS:
        if (sys / name).is_dir():
            _bind(sys / name, sys / name, read_only=True)
    # Where the files that stand in for the kernel's are kept.
    shadow = root / "system/platform/proc"
    shadow.mkdir(mode=0o755)
    for name, value in SHADOWED_SYSCTLS.items():
        if (sys / name).exists():
            file = shadow / name.replace("/", ".")
            file.write_text(f"{value}\n", encoding="ascii")
            _bind(file, sys / name)
    boot_id = shadow / "boot_id"
    boot_id.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
    _bind(boot_id, sys / "kernel/random/boot_id", read_only=True)
    # Writing a letter to it would reboot the machine below.
    if (proc / "sysrq-trigger").exists():
        _bind(proc / "sysrq-trigger", proc / "sysrq-trigger", read_only=True)

    empty = shadow / "empty"
    empty.touch(mode=0o444)
    for name in MASKED:
        if (proc / name).exists():
            _bind(empty, proc / name, read_only=True)


def mount_cgroups(target: Path, hierarchies: tuple[Hierarchy, ...]) -> None:
    """The same hierarchies as outside; in the cgroup namespace their roots are the node's groups."""
    if len(hierarchies) == 1 and hierarchies[0].unified:
        _mount("cgroup2", target, "cgroup2", _HARDENED)
        return
    _mount("tmpfs", target, "tmpfs", _HARDENED, "mode=0755,size=64k")
    for hierarchy in hierarchies:
        if hierarchy.unified:
            directory, kind, options = target / "unified", "cgroup2", ""
        else:
            named = next((name for name in hierarchy.controllers if name.startswith("name=")), "")
            options = f"none,{named}" if named else ",".join(sorted(hierarchy.controllers))
            directory, kind = target / (named.removeprefix("name=") or options), "cgroup"
        directory.mkdir()
        _mount(kind, directory, kind, _HARDENED, options)


def write_private(path: Path, text: str) -> None:
    """Make a file that root alone reads; FileExistsError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _mount(source: str | Path, target: Path, type: str = "", flags: int = 0, options: str = "") -> None:
    kernel.mount(str(source), str(target), type, flags, options)


def _bind_hardened(source: Path, target: Path) -> None:
    _mount(source, target, flags=kernel.MS_BIND)
    _mount("none", target, flags=kernel.MS_BIND | kernel.MS_REMOUNT | _HARDENED)


def _bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    _mount(source, target, flags=kernel.MS_BIND)
    if read_only:
        kernel.set_read_only(str(target), read_only=True)
