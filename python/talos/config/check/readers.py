"""Documents and settings without effect on nodes of this version, which have no reader.

The tests of this module compare the tables with the source of the nodes: a kind or a setting leaves them with
the change that brings its reader, and one that nothing reads is in them.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from talos.config.check.legacy import find_replaced
from talos.config.check.modules import find_modules
from talos.config.check.note import Note
from talos.config.documents.block.user_volume import UserVolumeConfig
from talos.config.documents.block.volume import VolumeConfig
from talos.config.effective.volumes import has_partition
from talos.config.model import Config
from talos.config.schema import Form, Section, fields_of
from talos.system.block.layout import DEDICABLE, STATE

UNREAD_KINDS = frozenset({"ContainerConfig", "KernelModuleConfig"})

_INTERFACES = "machine.network.interfaces"
UNREAD_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "": {
        "cluster.discovery.registries.kubernetes.disabled": True,
        "machine.install.bootloader": True,
        "machine.kubelet.disableManifestsDirectory": True,
        f"{_INTERFACES}.vip.equinixMetal": None,
        f"{_INTERFACES}.vlans.vip.equinixMetal": None,
    },
}
"""By kind, the main document's first: paths of settings, each with the value that is what nodes do.

What a document without effect replaces is not listed: it follows from the table of kinds.
"""
REASONS: Mapping[str, tuple[str, str]] = {
    "vip.equinixMetal": (
        "no effect: Equinix Metal has ended, so the address is announced as in any other network",
        "leave it out",
    ),
    "registries.kubernetes.disabled": (
        "no effect: nodes find each other by the discovery service, not by Kubernetes",
        "disabled: true",
    ),
    "install.bootloader": ("no effect: an installation always writes its boot loader", "leave it out"),
    "kubelet.disableManifestsDirectory": (
        "no effect: the kubelet reads no folder of manifests",
        "leave it out; machine.pods has static pods",
    ),
}
"""By the end of a path above: why it will have no effect, and the remedy. Each is a finding of its own."""
UNREAD_IN_CONTAINERS = frozenset(
    {
        "ExistingVolumeConfig",
        "LVMLogicalVolumeConfig",
        "LVMVolumeGroupConfig",
        "RAIDArrayConfig",
        "RawVolumeConfig",
        "SwapVolumeConfig",
    }
)
_NO_DISKS = "no effect: a container has no disks"
_MODULES = "KernelModuleConfig"  # each module has a finding of its own
_UNREAD_OF_STATE = ("mount", "provisioning")
_UNREAD_OF_FOLDERS = ("filesystem", "scrub", "trim")
"""Settings without effect of a system's volume that is a folder of EPHEMERAL."""


type Reason = tuple[str, str]
type Found = tuple[str, Note, Reason | None]
"""What it is called in the one finding, its place, and the reason that gives it one of its own."""


def find_unread(config: Config) -> Iterator[Note]:
    """One finding for all of them, as a generated config has two dozen, after those that have a reason."""
    yield from find_modules(config)
    names: set[str] = set()
    for name, place, reason in itertools.chain(_find_kinds(config), _find_settings(config)):
        if reason:
            yield place.find(reason[0], hint=reason[1])
        else:
            names.add(name)
    if names:
        listed = ", ".join(sorted(names, key=lambda name: (name in UNREAD_KINDS, name)))
        yield Note(f"no effect yet on nodes of this version: {listed}")


def find_unread_in_containers(config: Config) -> Iterator[Note]:
    """A finding for each place of a config that is about disks."""
    for document in config.documents:
        if document.kind in UNREAD_IN_CONTAINERS:
            yield Note.at(document).find(_NO_DISKS, hint="leave it out")
        elif isinstance(document, UserVolumeConfig) and document.volume_type != "directory":
            yield Note.at(document).find(_NO_DISKS, hint="volumeType: directory")
    if config.machine and config.machine.disks:
        yield Note.at(config.main, "machine.disks").find(_NO_DISKS, hint="leave it out")


def _find_kinds(config: Config) -> Iterator[Found]:
    """Documents that have no reader, and what they replace."""
    for path, newer in find_replaced(config):
        if UNREAD_KINDS.issuperset(newer) and newer != (_MODULES,):
            yield path, Note.at(config.main, path), None
    for document in config.documents:
        if document.kind in UNREAD_KINDS and document.kind != _MODULES:
            yield document.kind, Note.at(document), None


def _find_settings(config: Config) -> Iterator[Found]:
    for document in config.documents:
        label = " ".join(filter(None, (document.kind, getattr(document, "name", ""))))
        for path, done in UNREAD_SETTINGS.get(document.kind, {}).items():
            reason = next((REASONS[end] for end in REASONS if path.endswith(end)), None)
            for place in _find(document, path, done):
                yield " ".join(filter(None, (label, place))), Note.at(document, place), reason
    for name in _find_system_volumes(config):
        yield name, Note(""), None


def _find(section: Section, path: str, done: Any) -> Iterator[str]:
    """Where a setting has another value than ``done``; lists on the way get an index."""
    key, _, rest = path.partition(".")
    field = fields_of(type(section))[key]
    value = getattr(section, field.name)
    if value is None:
        return
    if not rest:
        if value != done:
            yield key
    elif field.shape.form is Form.LIST:
        for index, item in enumerate(value):
            yield from (f"{key}[{index}].{below}" for below in _find(item, rest, done))
    else:
        yield from (f"{key}.{below}" for below in _find(value, rest, done))


def _find_system_volumes(config: Config) -> Iterator[str]:
    for document in config.find_all(VolumeConfig):
        unread = _UNREAD_OF_STATE if document.name == STATE.label else ()
        if document.name in DEDICABLE and not has_partition(document):
            unread = _UNREAD_OF_FOLDERS
        for key in unread:
            yield from (f"VolumeConfig {document.name} {found}" for found in _find(document, key, None))
