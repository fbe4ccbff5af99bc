"""``talosctl cluster create``: nodes as containers on this machine."""

import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from talos.config import contract
from talos.provision.cluster import Disk, Provider, Role
from talos.provision.configs import ConfigOptions
from talos.provision.local import CreateOptions, create_cluster
from talos.provision.plan import ClusterOptions, parse_flag_size
from talos.provision.progress import show_progress
from talos.provision.store import ClusterFolder
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation, Lazy
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.patches import parse_patches
from talos.talosctl.commands.cluster_kubernetes import bring_up_with_kubernetes
from talos.talosctl.commands.cluster_ready import show_services
from talos.talosctl.kubernetes.versions import parse
from talos.talosctl.output import console

IMAGE_VARIABLE = "TALOS_IMAGE"
IMAGES_VARIABLE = "TALOS_IMAGES"
STAMP_SUFFIX = ".release"
"""After an image's name: the archive with its version, commit, and the keys of releases that it accepts."""
WAIT_TIMEOUT = "5m0s"
DEFAULT_NAME = "talos-default"


def check_local(flags: Flags) -> None:
    """Clusters are made on this machine only."""
    if flags.text("remote-endpoint"):
        raise UserError("clusters are created on this machine only", where="--remote-endpoint")


def run_create(invocation: Invocation) -> int:
    """Create the cluster, wait for it, show what runs and what to type next."""
    flags = invocation.flags
    check_local(flags)
    for name in ("exposed-ports", "mount"):
        if flags.is_given(name):
            raise UserError(
                "nodes have addresses of their own, reachable from this machine, and no host folders",
                where=f"--{name}",
            )
    if choose_provider(flags) is Provider.QEMU:
        # Its modules are loaded by need: most clusters are of containers.
        from talos.talosctl.commands.cluster_machines import create_machines_like_containers

        return create_machines_like_containers(flags)
    seconds = flags.seconds("wait-timeout") if flags.is_set("wait") else 0.0
    options = CreateOptions(
        directory=Path(flags.text("state")), talosconfig=flags.text("talosconfig-destination"), wait=seconds
    )
    chosen = make_container_options(flags)
    end = time.monotonic() + seconds
    with showing_left(options.directory, chosen.name), show_progress() as progress:
        created = create_cluster(chosen, make_config_options(flags), options, progress)
        if not seconds:
            return 0
        addresses = [str(node.address) for node in created.info.nodes]
        services = bring_up_with_kubernetes(created, chosen.images, end, flags, progress)
    console.note("")
    show_services(services)
    show_next(addresses, created.context, flags.text("name"), flags.text("talosconfig-destination"))
    return 0


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


def choose_provider(flags: Flags) -> Provider:
    """What the nodes are."""
    name = flags.text("provider") if flags.has("provider") else Provider.CONTAINER.value
    try:
        return Provider(name)
    except ValueError:
        names = ", ".join(provider.value for provider in Provider)
        raise UserError(
            f'there is no provider "{name}"', where="--provider", hint=f"one of: {names}"
        ) from None


def make_container_options(flags: Flags) -> ClusterOptions:
    """Containers and network of the flags."""
    image = flags.text("image") or os.environ.get(IMAGE_VARIABLE, "")
    if not image:
        hint = f"give the squashfs, or set {IMAGE_VARIABLE}"
        raise UserError("no image is named", where="--image", hint=hint)
    size = parse_flag_size(flags.text("disk"), where="--disk")
    chosen = make_options(flags, image=Path(image).resolve(), subnet=flags.text("subnet"))
    # Beside the name that was given, which may be a link into the Nix store.
    stamp = Path(f"{image}{STAMP_SUFFIX}")
    return replace(chosen, disk=size, stamp=stamp.resolve() if stamp.is_file() else None)


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
    return ConfigOptions(
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
        help="a folder of OCI archives that the nodes get images from before they ask a registry; "
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
    Flag(name="config-patch", type=Type.STRING_ARRAY, help="patch every machine config; @file reads one"),
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
FLAGS = (
    *NODE_FLAGS,
    Flag(
        name="image",
        help=f"the node's squashfs; {IMAGE_VARIABLE} names it otherwise. Its version, and the keys of "
        f"releases that it accepts, are beside it in a file of its name and {STAMP_SUFFIX}",
    ),
    Flag(name="subnet", default="10.5.0.0/24", help="the cluster's subnet; the host has its first address"),
    Flag(name="disk", default="6GiB", help="the size of each node's disk, which takes room as it fills"),
    Flag(name="wait-timeout", type=Type.DURATION, default=WAIT_TIMEOUT, help="how long to wait"),
    Flag(name="exposed-ports", short="p", help="not needed here"),
    Flag(
        name="host-ip",
        default="0.0.0.0",  # noqa: S104 - nothing listens there
        help="accepted: nothing listens on the host",
    ),
    Flag(name="mount", help="not possible here"),
)

COMMAND = Command(
    name="create",
    summary="Create a local cluster whose nodes are containers",
    details=(
        "Each node runs the image in namespaces of its own, without any container engine, and has an address "
        "in the cluster's subnet that this machine reaches directly. Root is needed."
    ),
    example="talosctl cluster create --image build/image.squashfs --controlplanes 1 --workers 1",
    flags=(
        *FLAGS,
        Flag(name="provider", default="container", help="container, or qemu for virtual machines"),
    ),
    run=run_create,
    commands=(
        Command(
            name="docker",
            summary="Create a local cluster whose nodes are containers, without Docker",
            flags=FLAGS,
            run=run_create,
        ),
        Lazy(
            "qemu",
            (),
            "Create a local cluster whose nodes are virtual machines",
            "talos.talosctl.commands.cluster_machines",
        ),
    ),
)
