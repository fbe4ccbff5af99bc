"""``talosctl image``: the images on a node."""

from collections.abc import Iterable

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import ContainerdInstance
from talos.api.machine.image_pb2 import (
    ImageServiceListRequest,
    ImageServiceListResponse,
    ImageServiceRemoveRequest,
)
from talos.client.namespaces import NAMESPACES
from talos.client.session import Session
from talos.system.errors import UserError
from talos.system.sizes import format_pretty_size
from talos.talosctl.cli.command import Command, Invocation, Lazy
from talos.talosctl.cli.flag import Flag, Flags
from talos.talosctl.client.command import Row, ignore, run_each, run_table
from talos.talosctl.client.flags import CLIENT_FLAGS, OUTPUT
from talos.talosctl.client.images import pull_shown
from talos.talosctl.output.units import format_time

_SERVICE = "/machine.ImageService/"


def containerd_of(flags: Flags) -> ContainerdInstance:
    """The containerd and namespace that ``--namespace`` means."""
    name = flags.text("namespace")
    if name not in NAMESPACES:
        raise UserError(
            f'there is no namespace "{name}"', where="--namespace", hint=f"use {' or '.join(NAMESPACES)}"
        )
    driver, namespace = NAMESPACES[name]
    return ContainerdInstance(driver=driver, namespace=namespace)


def run_list(invocation: Invocation) -> int:
    """One row for each image."""
    request = ImageServiceListRequest(containerd=containerd_of(invocation.flags))

    async def call(session: Session, node: str) -> list[ImageServiceListResponse]:
        async with session.stream(node, _SERVICE + "List", request, ImageServiceListResponse) as images:
            return [image async for image in images]

    def rows(node: str, images: list[ImageServiceListResponse]) -> Iterable[Row]:
        for image in images:
            yield (
                node,
                image.name,
                image.digest,
                format_pretty_size(image.size),
                format_time(image.created_at),
            )

    return run_table(invocation, ("NODE", "IMAGE", "DIGEST", "SIZE", "CREATED"), call, rows)


def run_pull(invocation: Invocation) -> int:
    """Pull an image on every node."""
    containerd = containerd_of(invocation.flags)

    async def call(session: Session, node: str) -> str:
        return await pull_shown(session, node, containerd, invocation.args[0])

    return run_each(invocation, call, ignore, shows_wait=False)


def run_remove(invocation: Invocation) -> int:
    """Remove an image from every node."""
    request = ImageServiceRemoveRequest(
        containerd=containerd_of(invocation.flags), image_ref=invocation.args[0]
    )

    async def call(session: Session, node: str) -> Empty:
        return await session.unary(node, _SERVICE + "Remove", request, Empty)

    return run_each(invocation, call, ignore)


COMMAND = Command(
    name="image",
    aliases=("images",),
    summary="Look at and manage container images",
    inherited=(
        *CLIENT_FLAGS,
        Flag(
            name="namespace",
            default="cri",
            help="cri for Kubernetes' images, system for etcd's and the kubelet's, inmem for those in memory",
        ),
    ),
    commands=(
        Lazy(
            "k8s-bundle",
            ("default",),
            "List the images of Kubernetes that nodes use by default",
            "talos.talosctl.commands.image_bundle:K8S",
        ),
        Lazy(
            "talos-bundle",
            (),
            "List the images that a version of the system consists of",
            "talos.talosctl.commands.image_bundle:TALOS",
        ),
        Lazy(
            "cache-cert-gen",
            (),
            "Make certificates for a cache of images, and a config patch that trusts them",
            "talos.talosctl.commands.image_cache:CERT_GEN",
        ),
        Lazy(
            "cache-create",
            (),
            "Pull images into a cache for nodes without a network",
            "talos.talosctl.commands.image_cache_create:CREATE",
        ),
        Lazy(
            "cache-serve",
            (),
            "Serve a folder of images to nodes, as a registry",
            "talos.talosctl.commands.image_cache:SERVE",
        ),
        Command(
            name="list",
            aliases=("l", "ls"),
            summary="List the images on the node",
            flags=(OUTPUT,),
            run=run_list,
        ),
        Command(
            name="pull",
            aliases=("p",),
            usage="<image>",
            summary="Pull an image",
            minimum=1,
            maximum=1,
            run=run_pull,
        ),
        Command(
            name="remove",
            aliases=("rm",),
            usage="<image>",
            summary="Remove an image",
            minimum=1,
            maximum=1,
            run=run_remove,
        ),
    ),
)
