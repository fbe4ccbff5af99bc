"""``talosctl cluster create``: nodes as containers on this machine."""

import os
import time
from dataclasses import replace
from pathlib import Path

from talos.provision.cluster import Provider
from talos.provision.local import CreateOptions, create_cluster
from talos.provision.plan import ClusterOptions, parse_flag_size
from talos.provision.progress import show_progress
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation, Lazy
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.commands.cluster_kubernetes import bring_up_with_kubernetes
from talos.talosctl.commands.cluster_options import (
    LATEST,
    NODE_FLAGS,
    check_local,
    make_config_options,
    make_options,
    show_next,
    showing_left,
)
from talos.talosctl.commands.cluster_ready import show_services
from talos.talosctl.output import console

IMAGE_VARIABLE = "TALOS_IMAGE"
STAMP_SUFFIX = ".release"
"""After an image's name: the archive with its version, commit, and the keys of releases that it accepts."""
WAIT_TIMEOUT = "5m0s"


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
        if flags.is_given("image-cache-path"):
            hint = "machines have one on their ISO: docs/image-cache.md"
            raise UserError("is for nodes that are containers", where="--image-cache-path", hint=hint)
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
    cache = flags.text("image-cache-path")
    return replace(
        chosen,
        disk=size,
        stamp=stamp.resolve() if stamp.is_file() else None,
        image_cache=Path(cache).resolve() if cache else None,
    )


FLAGS = (
    *NODE_FLAGS,
    Flag(
        name="image",
        help=f"the node's squashfs; {IMAGE_VARIABLE} names it otherwise. Its version, and the keys of "
        f"releases that it accepts, are beside it in a file of its name and {STAMP_SUFFIX}",
    ),
    Flag(
        name="image-cache-path",
        help="a cache of images that each node has as its own (talosctl image cache-create --layout=flat)",
    ),
    Flag(name="subnet", default="10.5.0.0/24", help="the cluster's subnet; the host has its first address"),
    Flag(name="disk", default="6GiB", help="the size of each node's disk, which takes room as it fills"),
    Flag(
        name="talos-version",
        default=LATEST,
        help="the version of Talos whose layout the configs have; what runs is the image's, always",
    ),
    Flag(
        name="wait-timeout", type=Type.DURATION, default=WAIT_TIMEOUT, help="how long to wait for the nodes"
    ),
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
