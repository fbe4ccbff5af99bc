"""Documents and settings without effect on nodes of this version, which have no reader.

The tests of this module compare the tables with the source of the nodes: a kind or a setting leaves them with
the change that brings its reader, and one that nothing reads is in them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from talos.config.check.legacy import find_replaced
from talos.config.check.note import Note
from talos.config.documents.block.volume import VolumeConfig
from talos.config.model import Config
from talos.config.schema import Form, Section, fields_of

UNREAD_KINDS = frozenset({
    "BGPInstanceConfig", "ContainerConfig",
    "KernelModuleConfig",
    "LVMLogicalVolumeConfig",
    "LVMVolumeGroupConfig",
    "RAIDArrayConfig",
    "SecurityProfileConfig", "SideroLinkConfig",
})  # fmt: skip

_INTERFACES = "machine.network.interfaces"
UNREAD_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "": {
        "cluster.discovery.registries.kubernetes.disabled": True,
        "cluster.network.cni.flannel.kubeNetworkPoliciesEnabled": False,
        "machine.install.bootloader": True,
        "machine.install.grubUseUKICmdline": False,
        "machine.kubelet.disableManifestsDirectory": True,
        f"{_INTERFACES}.vip.equinixMetal": None,
        f"{_INTERFACES}.vlans.vip.equinixMetal": None,
    },
    "KubeFlannelCNIConfig": {"kubeNetworkPoliciesEnabled": False},
}
"""By kind, the main document's first: paths of settings, each with the value that is what nodes do.

What a document without effect replaces is not listed: it follows from the table of kinds.
"""
REASONS: Mapping[str, tuple[str, str]] = {
    "kubeNetworkPoliciesEnabled": (
        "no effect: nodes bring no kube-network-policies, and flannel enforces no NetworkPolicy",
        "leave it out, and install what enforces them by cluster.extraManifests",
    ),
    "equinixMetal": (
        "no effect: Equinix Metal has ended, so the address is announced as in any other network",
        "leave it out",
    ),
}
"""Of settings above that will have no effect: why, and the remedy. Each is a finding of its own."""
_VOLUMES = {"EPHEMERAL": frozenset[str](), "STATE": frozenset({"mount", "provisioning"})}
"""Volumes of the system that have a document with effect, and its settings without one."""


def find_unread(config: Config) -> Iterator[Note]:
    """One finding for all of them, as a generated config has two dozen, after those that have a reason."""
    names = {path for path, newer in find_replaced(config) if UNREAD_KINDS.issuperset(newer)}
    for document in config.documents:
        label = " ".join(filter(None, (document.kind, getattr(document, "name", ""))))
        for path, done in UNREAD_SETTINGS.get(document.kind, {}).items():
            reason = REASONS.get(path.rpartition(".")[2])
            for place in _find(document, path, done):
                if reason:
                    yield Note.at(document, place).find(reason[0], hint=reason[1])
                else:
                    names.add(" ".join(filter(None, (label, place))))
    names |= {*_find_system_volumes(config)}
    kinds = {document.kind for document in config.documents if document.kind in UNREAD_KINDS}
    if names or kinds:
        listed = ", ".join([*sorted(names), *sorted(kinds)])
        yield Note(f"no effect yet on nodes of this version: {listed}")


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
        if document.name not in _VOLUMES:
            yield f"VolumeConfig {document.name}"
        for key in _VOLUMES.get(document.name, ()):
            yield from (f"VolumeConfig {document.name} {found}" for found in _find(document, key, None))
