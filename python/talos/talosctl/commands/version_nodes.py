"""The part of ``talosctl version`` that calls nodes; apart, because it imports the client."""

from google.protobuf.empty_pb2 import Empty

from talos.api.machine.machine_pb2 import Version, VersionResponse
from talos.client.session import Session
from talos.talosctl.cli.command import Invocation
from talos.talosctl.client.command import parts, run_each
from talos.talosctl.output import console
from talos.talosctl.output.version_text import format_rows


async def _fetch(session: Session, node: str) -> list[Version]:
    reply = await session.unary(node, "/machine.MachineService/Version", Empty(), VersionResponse)
    return list(parts(reply, Version))


def run_node_versions(invocation: Invocation) -> int:
    """Print each node's version."""
    is_short, is_json = invocation.flags.is_set("short"), invocation.flags.is_set("json")

    def show(node: str, versions: list[Version]) -> None:
        if is_json:
            from google.protobuf.json_format import MessageToJson

            for message in versions:
                console.write_line(MessageToJson(message, indent=None))
            return
        for message in versions:
            info = message.version
            console.write_line(f"\t{'NODE:':<12} {node}")
            rows = [("Tag", info.tag)]
            if not is_short:
                rows += [
                    ("SHA", info.sha),
                    ("Built", info.built),
                    ("Go version", info.go_version),
                    ("OS/Arch", f"{info.os}/{info.arch}"),
                    ("Enabled", "RBAC" if message.features.rbac else ""),
                ]
            console.write(format_rows(rows))

    return run_each(invocation, _fetch, show)
