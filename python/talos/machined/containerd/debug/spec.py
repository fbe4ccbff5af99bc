"""The two kinds of debug containers: beside the node's files, and in the node's own mount namespace."""

from dataclasses import replace

from talos.api.machine.debug_pb2 import DebugContainerRunRequestSpec
from talos.machined.containerd.debug.host_program import make_argv
from talos.machined.containerd.spec import ContainerSpec, Mount

HOST_SHELL = "/nix/var/nix/profiles/default/bin/bash"
HOST_ENVIRONMENT = {
    "PATH": (
        "/root/.nix-profile/bin:/nix/var/nix/profiles/default/bin:/nix/var/nix/profiles/default/sbin:"
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    ),
    "NIX_SSL_CERT_FILE": "/nix/var/nix/profiles/default/etc/ssl/certs/ca-bundle.crt",
    "TERM": "xterm-256color",
    "HOME": "/root",
}
"""The command and the variables of a program in the node's own mount namespace, in place of the image's."""
_ALL = ("rbind", "rw")
_DEV = Mount(target="/dev", source="/dev", options=_ALL)
MOUNTS = (
    _DEV,
    Mount(target="/sys", source="/sys", options=_ALL),
    Mount(target="/host", source="/", options=_ALL),
    Mount(target="/etc/hosts", source="/etc/hosts"),
    Mount(target="/etc/resolv.conf", source="/etc/resolv.conf"),
)


def make_spec(
    request: DebugContainerRunRequestSpec, image: str, capabilities: tuple[str, ...]
) -> ContainerSpec:
    """A container that sees and may do all that the node can, but for loading drivers and restarting."""
    return ContainerSpec(
        image=image,
        argv=tuple(request.args),
        environment=dict(request.env),
        uid=0,
        gid=0,
        mounts=MOUNTS,
        capabilities=capabilities,
        host_namespaces=frozenset({"network", "pid", "ipc"}),
        devices=True,
        read_only_root=False,
        no_new_privileges=False,
        masked=(),
        read_only=(),
        is_filtered=False,
        has_terminal=request.tty,
    )


def make_host_spec(
    request: DebugContainerRunRequestSpec, image: str, capabilities: tuple[str, ...], root: str
) -> ContainerSpec:
    """A container with the node's files, whose program leaves it for the node's mounts, and ``root``."""
    return replace(
        make_spec(request, image, capabilities),
        rootfs="/",
        argv=make_argv(root, request.args or (HOST_SHELL,)),
        environment={**HOST_ENVIRONMENT, **request.env},
        mounts=(_DEV,),  # where the runtime opens the terminal
        host_namespaces=frozenset({"network", "pid", "ipc", "uts"}),
    )
