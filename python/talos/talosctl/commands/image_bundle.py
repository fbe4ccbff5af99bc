"""Lists of images: ``talosctl image k8s-bundle``, ``talos-bundle``."""

import re

from talos.config import contract as current
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client_version import client_version
from talos.talosctl.output import console

_VERSION = re.compile(r"v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?)")
PAUSE_IMAGE = "registry.k8s.io/pause:3.10.2"
"""What containerd starts a pod with."""


def run_bundle(invocation: Invocation) -> int:
    """One image a line, in upstream's order."""
    flags = invocation.flags
    kubernetes = _version(flags, "k8s-version")
    policies = _version(flags, "kube-network-policies-version")
    images = (
        f"ghcr.io/siderolabs/flannel:v{_version(flags, 'flannel-version')}",
        f"registry.k8s.io/coredns/coredns:v{_version(flags, 'coredns-version')}",
        f"registry.k8s.io/etcd:v{_version(flags, 'etcd-version')}",
        PAUSE_IMAGE,
        f"{current.KUBE_API_SERVER_IMAGE}:v{kubernetes}",
        f"{current.KUBE_CONTROLLER_MANAGER_IMAGE}:v{kubernetes}",
        f"{current.KUBE_SCHEDULER_IMAGE}:v{kubernetes}",
        f"{current.KUBE_PROXY_IMAGE}:v{kubernetes}",
        f"{current.KUBELET_IMAGE}:v{kubernetes}",
        f"registry.k8s.io/networking/kube-network-policies:v{policies}",
    )
    for image in images:
        console.write_line(image)
    return 0


def _version(flags: Flags, name: str) -> str:
    text = flags.text(name)
    match = _VERSION.fullmatch(text)
    if match is None:
        raise UserError(f'"{text}" is not a version', where=f"--{name}", hint="such as v1.37.0")
    return match[1]


K8S = Command(
    name="k8s-bundle",
    aliases=("default",),
    summary="List the images of Kubernetes that nodes use by default",
    flags=(
        Flag(name="coredns-version", default="v1.14.7", metavar="semver", help="the version of CoreDNS"),
        Flag(name="etcd-version", default="3.7.1", metavar="semver", help="the version of etcd"),
        Flag(name="flannel-version", default="0.28.9", metavar="semver", help="the version of flannel"),
        Flag(
            name="k8s-version",
            default=f"v{current.KUBERNETES_VERSION}",
            metavar="semver",
            help="the version of Kubernetes",
        ),
        Flag(
            name="kube-network-policies-version",
            default="v1.1.1",
            metavar="semver",
            help="the version of kube-network-policies",
        ),
    ),
    run=run_bundle,
)


MIN_VERSION = (1, 11)
REGISTRY = "ghcr.io/siderolabs"
SOURCES = ("installer", "installer-base", "imager", "talos", "talosctl-all", "overlays", "extensions")
INDEXES = ("extensions", "overlays")


def run_sources(invocation: Invocation) -> int:
    """One image a line, in upstream's order."""
    flags = invocation.flags
    tag = invocation.args[0] if invocation.args else client_version().tag
    check_tag(tag)
    for name in SOURCES:
        console.write_line(f"{REGISTRY}/{name}:{tag}")
    unread = [name for name in INDEXES if flags.is_set(name)]
    if any(flags.is_given(name) for name in unread):
        hint = f"read the list in {REGISTRY}/{unread[0]}:{tag}"
        raise UserError("this client calls no registry", where=f"--{unread[0]}", hint=hint)
    if unread:
        console.note(
            f"NOTE: the images that {' and '.join(unread)}:{tag} list are left out: no registry is called"
        )
    return 0


def check_tag(tag: str) -> None:
    """UserError unless it is a version that has these images."""
    match = _VERSION.fullmatch(tag)
    if match is None or not tag.startswith("v"):
        raise UserError(f'"{tag}" is not a version', hint="with a leading v, such as v1.15.0")
    major, minor = (int(part) for part in match[1].split(".")[:2])
    if not MIN_VERSION <= (major, minor) <= current.CURRENT:
        first, last = (f"v{major}.{minor}" for major, minor in (MIN_VERSION, current.CURRENT))
        raise UserError(f'there is no list for "{tag}"', hint=f"give a version from {first} to {last}")


TALOS = Command(
    name="talos-bundle",
    usage="[talos-version]",
    summary="List the images that a version of the system consists of",
    maximum=1,
    flags=(
        Flag(name="extensions", type=Type.BOOL, default="true", help="also those of the extensions"),
        Flag(name="overlays", type=Type.BOOL, default="true", help="also those of the overlays"),
    ),
    run=run_sources,
)
