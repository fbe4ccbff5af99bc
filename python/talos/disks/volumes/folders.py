"""The system's folders below EPHEMERAL: volumes of their own, though most are no partitions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from talos.api.definitions import block_pb2, enums_pb2
from talos.system.block.layout import EPHEMERAL

ETCD_USER = 60
KUBE_API_SERVER = 65534


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder; ``name`` is relative to its parent's."""

    id: str
    parent: str
    name: str
    mode: int
    owner: int = 0


FOLDERS = (
    Folder(id="/var/lib", parent=EPHEMERAL.label, name="lib", mode=0o700),
    Folder(id="ETCD", parent="/var/lib", name="etcd", mode=0o700, owner=ETCD_USER),
    Folder(id="CRI", parent="/var/lib", name="containerd", mode=0o700),
    Folder(id="KUBELET", parent="/var/lib", name="kubelet", mode=0o700),
    Folder(id="/var/lib/cni", parent="/var/lib", name="cni", mode=0o700),
    Folder(id="/var/lib/kubelet/seccomp", parent="KUBELET", name="seccomp", mode=0o700),
    Folder(
        id="/var/lib/kubelet/seccomp/profiles", parent="/var/lib/kubelet/seccomp", name="profiles", mode=0o700
    ),
    Folder(id="LOG", parent=EPHEMERAL.label, name="log", mode=0o755),
    Folder(id="/var/log/audit", parent="LOG", name="audit", mode=0o700),
    Folder(id="/var/log/audit/kube", parent="/var/log/audit", name="kube", mode=0o700, owner=KUBE_API_SERVER),
    Folder(id="/var/log/containers", parent="LOG", name="containers", mode=0o755),
    Folder(id="/var/log/pods", parent="LOG", name="pods", mode=0o755),
    Folder(id="/var/mnt", parent=EPHEMERAL.label, name="mnt", mode=0o755),
    Folder(id="/run/lock", parent="", name="/run/lock", mode=0o755),
)
_TOP = {"": "", EPHEMERAL.label: "/var"}
"""Where the folders without a parent among these are."""


class SystemFolders(Protocol):
    """The system's folders on disks."""

    def is_used(self, path: str) -> bool:
        """Whether there is such a folder, with something in it."""
        ...

    def make(self, volume: str) -> None:
        """Make those that are in a volume with a partition of its own, which is mounted. OSError."""
        ...


def find_folder(volume: str) -> Folder:
    """The folder that is a volume."""
    return next(folder for folder in FOLDERS if folder.id == volume)


def find_path(folder: Folder) -> str:
    """The absolute path of a folder."""
    if folder.parent in _TOP:
        return f"{_TOP[folder.parent]}/{folder.name}".replace("//", "/")
    return f"{find_path(find_folder(folder.parent))}/{folder.name}"


def find_volume(folder: Folder, dedicated: Collection[str]) -> str:
    """Which of the volumes that are ``dedicated`` a folder is in, or is; empty for none of them."""
    if folder.id in dedicated:
        return folder.id
    return "" if folder.parent in _TOP else find_volume(find_folder(folder.parent), dedicated)


RUN_LINK, RUN = "/var/run", "/run"


def make_folders() -> dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]]:
    """Their specs by id, and that of the link from /var/run, without annotations."""
    found: dict[str, tuple[block_pb2.VolumeConfigSpec, Mapping[str, str]]] = {}
    for folder in FOLDERS:
        spec = block_pb2.VolumeConfigSpec(type=enums_pb2.VOLUME_TYPE_DIRECTORY)
        spec.mount.target_path = folder.name
        spec.mount.parent_id = folder.parent
        spec.mount.file_mode = folder.mode
        spec.mount.uid = spec.mount.gid = folder.owner
        found[folder.id] = (spec, {})
    link = block_pb2.VolumeConfigSpec(type=enums_pb2.VOLUME_TYPE_SYMLINK)
    link.symlink.symlink_target_path = RUN
    link.mount.target_path = RUN_LINK
    return {**found, RUN_LINK: (link, {})}
