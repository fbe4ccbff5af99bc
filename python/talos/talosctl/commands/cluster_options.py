"""Clusters of both kinds: the flags, the options made of them, what a user sees at the end."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from talos.config import contract
from talos.config.contract import parse_contract
from talos.provision.cluster import Disk, Provider, Role
from talos.provision.configs import ConfigOptions
from talos.provision.plan import ClusterOptions, parse_flag_size
from talos.provision.store import ClusterFolder
from talos.system.errors import UserError
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.patches import parse_patches
from talos.talosctl.kubernetes.versions import parse
from talos.talosctl.output import console

IMAGES_VARIABLE = "TALOS_IMAGES"
DEFAULT_NAME = "talos-default"
LATEST = "latest"
"""The version of Talos that stands for this one."""


def check_local(flags: Flags) -> None:
    """Clusters are made on this machine only."""
    if flags.text("remote-endpoint"):
        raise UserError("clusters are created on this machine only", where="--remote-endpoint")


@contextmanager
def showing_left(directory: Path, name: str) -> Generator[None]:
    """After a failure or an interrupt: that nodes run which this call has started, and how to end them."""
    folder = ClusterFolder(directory.resolve() / name)
    was_there = folder.path.exists()
    try:
        yield
    except BaseException:
        if not was_there and folder.path.exists():
            named = make_name_flag(name)
            console.note(
                f"The nodes of {name} go on running: talosctl cluster logs{named} shows their consoles, "
                f"talosctl cluster destroy{named} removes them."
            )
        raise


def make_name_flag(name: str) -> str:
    """What names a cluster on a command line."""
    return "" if name == DEFAULT_NAME else f" --name {name}"


def make_options(
    flags: Flags,
    *,
    image: Path,
    subnet: str,
    provider: Provider = Provider.CONTAINER,
    disks: Sequence[Disk] = (),
) -> ClusterOptions:
    """What clusters of both kinds have."""
    images = flags.text("images") or os.environ.get(IMAGES_VARIABLE, "")
    cpus: dict[Role, float] = {}
    memory: dict[Role, int] = {}
    for role, ending in ((Role.CONTROL_PLANE, "controlplanes"), (Role.WORKER, "workers")):
        cpus[role] = parse_cpus(flags.text(f"cpus-{ending}"), f"--cpus-{ending}")
        memory[role] = parse_flag_size(flags.text(f"memory-{ending}"), where=f"--memory-{ending}")
    return ClusterOptions(
        name=flags.text("name"),
        subnet=subnet,
        controlplanes=flags.number("controlplanes"),
        workers=flags.number("workers"),
        image=image,
        images=Path(images).resolve() if images else None,
        provider=provider,
        disks=disks,
        mtu=flags.number("mtu"),
        nameservers=flags.texts("nameservers"),
        cpus=cpus,
        memory=memory,
        discovery=flags.is_set("with-cluster-discovery"),
    )


def make_config_options(flags: Flags) -> ConfigOptions:
    """The machine configs of the flags."""
    chosen = flags.text("kubernetes-version") if flags.is_given("kubernetes-version") else ""
    if chosen:
        parse(chosen, "--kubernetes-version")
    version = flags.text("talos-version")
    return ConfigOptions(
        contract=contract.CURRENT if version == LATEST else parse_contract(version),
        kubernetes_version=chosen.removeprefix("v"),
        registry_mirrors=flags.texts("registry-mirror"),
        patches=parse_patches(flags.texts("config-patch")),
        control_plane_patches=parse_patches(flags.texts("config-patch-controlplanes")),
        worker_patches=parse_patches(flags.texts("config-patch-workers")),
    )


def show_next(addresses: list[str], context: str, name: str, talosconfig: str) -> None:
    """What to type next."""
    program = f"talosctl --talosconfig {talosconfig}" if talosconfig else "talosctl"
    lines = (
        "version",
        "services",
        "logs apid -f",
        "dmesg",
        f"-n {','.join(addresses)} memory",
        "get addresses",
        "get rd",
        "events",
        "processes",
        "read /etc/os-release",
    )
    console.note(f"\nThe cluster's context is {context}; commands go to {addresses[0]}. Try:")
    for line in lines:
        console.note(f"  {program} {line}")
    named = make_name_flag(name)
    console.note(f"  talosctl cluster show{named}\n  talosctl cluster destroy{named}")


def parse_cpus(text: str, where: str) -> float:
    """A number of processors, which need not be whole."""
    try:
        cpus = float(text)
    except ValueError:
        cpus = -1.0
    if not 0 <= cpus < float("inf"):
        raise UserError(f"{text!r} is no number of processors", where=where, hint="write it like 1.5")
    return cpus


NODE_FLAGS = (
    Flag(
        name="images",
        help="a folder of OCI archives that the nodes get images from before they try a registry; "
        f"{IMAGES_VARIABLE} names it otherwise",
    ),
    Flag(name="registry-mirror", type=Type.STRINGS, help="mirrors as <registry host>=<mirror URL>"),
    Flag(name="controlplanes", type=Type.INT, default="1", help="how many control plane nodes"),
    Flag(name="workers", type=Type.INT, default="1", help="how many workers"),
    Flag(name="mtu", type=Type.INT, default="1500", help="the size of the largest packet in the cluster"),
    Flag(name="nameservers", type=Type.STRINGS, help="the nodes' name servers"),
    Flag(name="cpus-controlplanes", default="2.0", help="processors of each control plane node"),
    Flag(name="cpus-workers", default="2.0", help="processors of each worker"),
    Flag(name="memory-controlplanes", default="2.0GiB", help="memory of each control plane node"),
    Flag(name="memory-workers", default="2.0GiB", help="memory of each worker"),
    Flag(name="config-patch", type=Type.STRING_ARRAY, help="a patch for all nodes, @file or a URL"),
    Flag(
        name="config-patch-controlplanes",
        type=Type.STRING_ARRAY,
        help="patch those of control plane nodes",
    ),
    Flag(name="config-patch-workers", type=Type.STRING_ARRAY, help="patch those of workers"),
    Flag(
        name="kubernetes-version",
        default=contract.KUBERNETES_VERSION,
        help="the version of Kubernetes in the configs; with images, theirs unless it is given",
    ),
    Flag(
        name="with-cluster-discovery",
        type=Type.BOOL,
        default="true",
        help="let nodes find each other through a discovery server of the cluster's own",
    ),
    Flag(
        name="talosconfig-destination",
        help="the client file that gets the context, instead of the usual one",
    ),
    Flag(
        name="skip-kubeconfig",
        type=Type.BOOL,
        default="false",
        help="don't merge the kubeconfig of a cluster that is given Kubernetes' images into the usual one",
    ),
    Flag(
        name="skip-k8s-node-readiness-check",
        type=Type.BOOL,
        default="false",
        help="don't wait until the nodes of such a cluster are ready",
    ),
    Flag(
        name="wait",
        type=Type.BOOL,
        default="true",
        help="wait until every node serves its API, and is ready in a cluster with Kubernetes' images",
    ),
)
"""Of clusters of both kinds."""
