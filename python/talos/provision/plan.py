"""From a few chosen to a complete request: names, addresses, sizes, each checked."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network
from pathlib import Path

from talos.provision.cluster import ClusterRequest, Disk, NodeRequest, Provider, Role
from talos.system.errors import UserError
from talos.system.sizes import parse_size

# A node's name is its host name: one DNS label (RFC 1123), at most 63 characters. The longest
# ending we add is "-controlplane-100".
MAX_CLUSTER_NAME = 40
DISK_PATHS = {"virtio": "/dev/vda", "nvme": "/dev/nvme0n1", "ahci": "/dev/sda", "scsi": "/dev/sda"}
"""Where a machine finds its first disk, by the disk's driver."""
# mkfs.xfs refuses less than 300 MiB.
MIN_DISK = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The flags of ``talosctl cluster create``."""

    name: str = "talos-default"
    subnet: str = "10.5.0.0/24"
    controlplanes: int = 1
    workers: int = 1
    image: Path
    stamp: Path | None = None
    images: Path | None = None
    image_cache: Path | None = None
    mtu: int = 1500
    nameservers: Sequence[str] = ()
    time_servers: Sequence[str] = ()
    cpus: Mapping[Role, float] = field(default_factory=dict[Role, float])
    memory: Mapping[Role, int] = field(default_factory=dict[Role, int])
    disk: int = 6 << 30
    discovery: bool = True
    provider: Provider = Provider.CONTAINER
    disks: Sequence[Disk] = ()


def make_request(chosen: ClusterOptions) -> ClusterRequest:
    """The request, without machine configs: those need the addresses it assigns."""
    name, subnet = check_name(chosen.name), parse_subnet(chosen.subnet)
    nodes = tuple(_make_nodes(chosen, subnet))
    return ClusterRequest(
        name=name,
        provider=chosen.provider,
        subnet=subnet,
        gateway=subnet[1],
        services=subnet[-2],
        discovery=chosen.discovery,
        mtu=chosen.mtu,
        image=chosen.image,
        stamp=chosen.stamp,
        images=chosen.images,
        image_cache=chosen.image_cache,
        nameservers=tuple(parse_nameserver(server) for server in chosen.nameservers),
        time_servers=tuple(chosen.time_servers),
        nodes=nodes,
    )


def _make_nodes(chosen: ClusterOptions, subnet: IPv4Network) -> Iterator[NodeRequest]:
    size = _choose_disk_size(chosen)
    numbers = dict.fromkeys(Role, 0)
    for offset, role in enumerate(_choose_roles(chosen, subnet), start=2):
        numbers[role] += 1
        yield NodeRequest(
            name=f"{chosen.name}-{role.value}-{numbers[role]}",
            role=role,
            address=subnet[offset],
            cpus=chosen.cpus.get(role, 0.0),
            memory=chosen.memory.get(role, 0),
            disk=size,
            disks=tuple(chosen.disks),
        )


def _choose_roles(chosen: ClusterOptions, subnet: IPv4Network) -> Sequence[Role]:
    """The role of each node, as many as the subnet has addresses for."""
    roles = [Role.CONTROL_PLANE] * chosen.controlplanes + [Role.WORKER] * chosen.workers
    if chosen.controlplanes < 0 or chosen.workers < 0 or not roles:
        raise UserError(
            f"{chosen.controlplanes} control plane nodes and {chosen.workers} workers are no cluster",
            where="--controlplanes, --workers",
            hint="request at least one node",
        )
    # Without the addresses of the network, the broadcast, the gateway and the launcher's services.
    room = max(subnet.num_addresses - 4, 0)
    if len(roles) > room:
        raise UserError(
            f"{subnet} has addresses for {room} nodes, not for {len(roles)}",
            where="--subnet",
            hint="take a larger subnet, such as 10.5.0.0/16",
        )
    return roles


def _choose_disk_size(chosen: ClusterOptions) -> int:
    """Of a node's first disk; all of them are large enough."""
    sizes = [disk.size for disk in chosen.disks] or [chosen.disk]
    if min(sizes) < MIN_DISK:
        where = "--disks" if chosen.disks else "--disk"
        text = f"a disk of {min(sizes) >> 20} MiB is too small"
        raise UserError(text, where=where, hint="take 512 MiB or more")
    return sizes[0]


def with_configs(request: ClusterRequest, configs: Mapping[Role, str]) -> ClusterRequest:
    """The request with a machine config for every node."""
    nodes = tuple(replace(node, config=configs.get(node.role, "")) for node in request.nodes)
    return replace(request, nodes=nodes)


def check_name(name: str) -> str:
    """A cluster's name: small letters, digits and hyphens, as host names are made from it."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) or len(name) > MAX_CLUSTER_NAME:
        raise UserError(
            f"{name!r} can't be a cluster's name",
            where="--name",
            hint=f"up to {MAX_CLUSTER_NAME} small letters, digits and, inside, hyphens",
        )
    return name


def parse_subnet(text: str) -> IPv4Network:
    """The cluster's subnet."""
    try:
        subnet = ip_network(text)
    except ValueError as error:
        raise UserError(str(error), where="--subnet", hint="write it like 10.5.0.0/24") from None
    if not isinstance(subnet, IPv4Network):
        raise UserError(f"{text} is not IPv4", where="--subnet", hint="write it like 10.5.0.0/24")
    return subnet


def parse_nameserver(text: str) -> IPv4Address:
    """The address of a name server."""
    try:
        address = ip_address(text)
    except ValueError as error:
        raise UserError(str(error), where="--nameservers", hint="give IPv4 addresses") from None
    if not isinstance(address, IPv4Address):
        raise UserError(f"{text} is not IPv4", where="--nameservers", hint="give IPv4 addresses")
    return address


def parse_flag_size(text: str, *, where: str) -> int:
    """The bytes of a flag: ``2GiB``, ``512MB``; a bare number is in MiB."""
    try:
        return parse_size(text, bare=1 << 20)
    except ValueError as error:
        raise UserError(str(error), where=where, hint="write it like 2GiB or 512MiB") from None


def parse_disks(texts: Sequence[str]) -> tuple[Disk, ...]:
    """Disks of a machine, ``virtio:10GiB`` each."""
    disks: list[Disk] = []
    for text in texts:
        driver, colon, size = text.partition(":")
        if not colon or driver not in DISK_PATHS:
            hint = f"DRIVER:SIZE, such as virtio:10GiB; drivers: {', '.join(DISK_PATHS)}"
            raise UserError(f"{text!r} is no disk", where="--disks", hint=hint)
        disks.append(Disk(driver, parse_flag_size(size, where="--disks")))
    return tuple(disks)
