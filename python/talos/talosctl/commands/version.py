"""``talosctl version``."""

import platform

from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS
from talos.talosctl.output import console


def run_version(invocation: Invocation) -> int:
    """Print the client's version, then each node's."""
    from talos.talosctl.client_version import client_version

    version = client_version()
    console.write_line("Client:")
    if invocation.flags.is_set("short"):
        console.write_line(f"Talos {version.tag}")
    else:
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        _print_version(
            version.tag,
            version.sha,
            version.built,
            f"CPython {platform.python_version()}",
            f"{platform.system().lower()}/{machine}",
        )
    if invocation.flags.is_set("client"):
        return 0
    console.write_line("Server:")
    console.flush()
    from talos.talosctl.commands.version_nodes import run_node_versions

    return run_node_versions(invocation)


def _print_version(tag: str, sha: str, built: str, language: str, target: str) -> None:
    rows = (("Tag", tag), ("SHA", sha), ("Built", built), ("Go version", language), ("OS/Arch", target))
    for name, value in rows:
        console.write_line(f"\t{name + ':':<12} {value}".rstrip())


COMMAND = Command(
    name="version",
    summary="Show the client's and the nodes' versions",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        Flag(name="client", type=Type.BOOL, default="false", help="ask no node"),
        Flag(name="short", type=Type.BOOL, default="false", help="only the version number"),
    ),
    run=run_version,
)
