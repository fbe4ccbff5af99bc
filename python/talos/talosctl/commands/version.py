"""``talosctl version``."""

from talos.system.version import Version
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.flags import CLIENT_FLAGS, INSECURE_FLAGS
from talos.talosctl.client_version import client_version
from talos.talosctl.output import console
from talos.talosctl.output.version_text import format_version


def run_version(invocation: Invocation) -> int:
    """Print the client's version, then each node's; as JSON the nodes' alone."""
    if invocation.flags.is_set("json"):
        return _run_nodes(invocation)
    version = client_version()
    console.write_line("Client:")
    if invocation.flags.is_set("short"):
        console.write_line(f"Talos {version.tag}")
    else:
        _print_version(version)
    if invocation.flags.is_set("client"):
        return 0
    console.write_line("Server:")
    console.flush()
    return _run_nodes(invocation)


def _run_nodes(invocation: Invocation) -> int:
    # Imported late: without nodes the client is not needed.
    from talos.talosctl.commands.version_nodes import run_node_versions

    return run_node_versions(invocation)


def _print_version(version: Version) -> None:
    platform = f"{version.os}/{version.arch}"
    console.write(format_version(version.tag, version.sha, version.built, version.language, platform))


COMMAND = Command(
    name="version",
    summary="Show the client's and the nodes' versions",
    flags=(
        *CLIENT_FLAGS,
        *INSECURE_FLAGS,
        Flag(name="client", type=Type.BOOL, default="false", help="call no node"),
        Flag(name="short", type=Type.BOOL, default="false", help="only the version number"),
        Flag(name="json", type=Type.BOOL, default="false", help="the nodes' versions as JSON", hidden=True),
    ),
    run=run_version,
)
