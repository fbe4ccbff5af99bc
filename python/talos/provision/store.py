"""The state folder: one directory per cluster, ``~/.talos/clusters/<name>``.

state.yaml      the request, without the machine configs
launcher.yaml   what runs: processes with their start times, written by the launcher
launcher.log    the launcher's output
discovery.log   that of the cluster's discovery server
mirror.log      that of its mirror of registries
root/           empty; where each node mounts its root, in its own mount namespace
<node>/         config.yaml, console.log
                of a container: state/ (STATE), var.img (EPHEMERAL), slots/ (what it starts from, and META)
                of a machine: disk0.img and so on, qemu.log
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, cast

import yaml

from talos.provision.cluster import ClusterRequest, Disk, NodeRequest, Provider, Role
from talos.system.errors import UserError

_YAML: Any = yaml  # its annotations are partial
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """The paths of one cluster."""

    path: Path

    @property
    def state(self) -> Path:
        """The request."""
        return self.path / "state.yaml"

    @property
    def record(self) -> Path:
        """What runs."""
        return self.path / "launcher.yaml"

    @property
    def log(self) -> Path:
        """The launcher's log."""
        return self.path / "launcher.log"

    def companion_log(self, name: str) -> Path:
        """The output of a program that the launcher runs beside the nodes."""
        return self.path / f"{name}.log"

    @property
    def secrets(self) -> Path:
        """The secrets bundle the configs were made from."""
        return self.path / "secrets.yaml"

    @property
    def talosconfig(self) -> Path:
        """The cluster's own client file."""
        return self.path / "talosconfig"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig that was merged into the user's."""
        return self.path / "kubeconfig"

    @property
    def root(self) -> Path:
        """The mount point every node uses for its root."""
        return self.path / "root"

    def node(self, name: str) -> Path:
        """A node's own directory."""
        return self.path / name

    def config(self, name: str) -> Path:
        """The machine config handed to a node."""
        return self.node(name) / "config.yaml"

    def console(self, name: str) -> Path:
        """What a node's PID 1 wrote to its console."""
        return self.node(name) / "console.log"

    def state_partition(self, name: str) -> Path:
        """What the node sees as /system/state."""
        return self.node(name) / "state"

    def slots(self, name: str) -> Path:
        """What the node is started from."""
        return self.node(name) / "slots"

    def reboot_mark(self, name: str) -> Path:
        """Put there for the launcher to reboot the node."""
        return self.node(name) / "reboot"

    def disk(self, name: str) -> Path:
        """The disk image the node sees as /var."""
        return self.node(name) / "var.img"

    def machine_log(self, name: str) -> Path:
        """What the QEMU of a machine wrote."""
        return self.node(name) / "qemu.log"

    def machine_disk(self, name: str, number: int) -> Path:
        """The image of a machine's disk, the first being 0."""
        return self.node(name) / f"disk{number}.img"


def check_free(folder: ClusterFolder, name: str) -> None:
    """UserError when there is a cluster of this name already."""
    if folder.path.exists():
        raise UserError(
            f"the cluster {name} is already there",
            where=str(folder.path),
            hint=f"destroy it first (talosctl cluster destroy --name {name}) or take another --name",
        )


def folders(directory: Path) -> list[ClusterFolder]:
    """Every cluster of a state directory, by name."""
    if not directory.is_dir():
        return []
    found = (ClusterFolder(path) for path in sorted(directory.iterdir()))
    return [folder for folder in found if folder.state.is_file()]


def write_request(folder: ClusterFolder, request: ClusterRequest) -> None:
    """Create the folder of a new cluster; a UserError when there is one of this name already."""
    check_free(folder, request.name)
    folder.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.path.mkdir(mode=0o700)
    folder.root.mkdir(mode=0o700)
    for node in request.nodes:
        folder.node(node.name).mkdir(mode=0o700)
        folder.state_partition(node.name).mkdir(mode=0o700)
        write_private(folder.config(node.name), node.config)
    write_private(folder.state, yaml.safe_dump(_to_data(request), sort_keys=False))


def read_request(folder: ClusterFolder) -> ClusterRequest:
    """The request as it was written, machine configs included."""
    try:
        data = _YAML.load(folder.state.read_text(encoding="utf-8"), Loader=_LOADER)
        return _from_data(folder, data)
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise UserError(
            f"the cluster's state can't be read: {error}",
            where=str(folder.state),
            hint="destroy the cluster and create it again",
        ) from error


def write_record(folder: ClusterFolder, record: Mapping[str, Any]) -> None:
    """Replace the record of what runs, in one step."""
    new = folder.record.with_suffix(".new")
    write_private(new, yaml.safe_dump(dict(record), sort_keys=False))
    new.replace(folder.record)


def read_record(folder: ClusterFolder) -> dict[str, Any]:
    """The record of what runs; empty when there is none or it can't be read."""
    try:
        data = _YAML.load(folder.record.read_text(encoding="utf-8"), Loader=_LOADER)
    except (FileNotFoundError, yaml.YAMLError):
        return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _to_data(request: ClusterRequest) -> dict[str, Any]:
    return {
        "provider": request.provider.value,
        "name": request.name,
        "subnet": str(request.subnet),
        "gateway": str(request.gateway),
        "services": str(request.services),
        "discovery": request.discovery,
        "mtu": request.mtu,
        "image": str(request.image),
        "stamp": str(request.stamp) if request.stamp else "",
        "images": str(request.images) if request.images else "",
        "imageCache": str(request.image_cache) if request.image_cache else "",
        "nameservers": [str(server) for server in request.nameservers],
        "timeServers": list(request.time_servers),
        "nodes": [
            {
                "name": node.name,
                "type": node.role.value,
                "address": str(node.address),
                "cpus": node.cpus,
                "memory": node.memory,
                "disk": node.disk,
                "disks": [{"driver": disk.driver, "size": disk.size} for disk in node.disks],
            }
            for node in request.nodes
        ],
    }


def _from_data(folder: ClusterFolder, data: Any) -> ClusterRequest:
    return ClusterRequest(
        name=data["name"],
        provider=Provider(data["provider"]),
        subnet=IPv4Network(data["subnet"]),
        gateway=IPv4Address(data["gateway"]),
        services=IPv4Address(data["services"]),
        discovery=data["discovery"],
        mtu=data["mtu"],
        image=Path(data["image"]),
        stamp=Path(data["stamp"]) if data["stamp"] else None,
        images=Path(data["images"]) if data["images"] else None,
        image_cache=Path(data["imageCache"]) if data.get("imageCache") else None,
        nameservers=tuple(IPv4Address(server) for server in data["nameservers"]),
        time_servers=tuple(data["timeServers"]),
        nodes=tuple(
            NodeRequest(
                name=node["name"],
                role=Role(node["type"]),
                address=IPv4Address(node["address"]),
                config=folder.config(node["name"]).read_text(encoding="utf-8"),
                cpus=node["cpus"],
                memory=node["memory"],
                disk=node["disk"],
                disks=tuple(Disk(disk["driver"], disk["size"]) for disk in node.get("disks", ())),
            )
            for node in data["nodes"]
        ),
    )
