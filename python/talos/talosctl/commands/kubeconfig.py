"""``talosctl kubeconfig``."""

import io
import os
import tarfile
from pathlib import Path
from typing import cast

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import Data
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.client.command import need_one_node, raise_error, run_async
from talos.talosctl.client.fanout import ask_nodes, report_failures
from talos.talosctl.client.flags import CLIENT_FLAGS
from talos.talosctl.client.select import select_target
from talos.talosctl.client.session import Session, open_session
from talos.talosctl.output import console
from talos.talosctl.output.yaml_text import dump_yaml, parse_yaml

type Fields = dict[str, object]
_LISTS = ("clusters", "users", "contexts")


def run_kubeconfig(invocation: Invocation) -> int:
    """Save the admin kubeconfig, or merge it into the user's."""
    flags = invocation.flags

    async def ask(session: Session, node: str) -> bytes:
        archive = b""
        async with session.stream(node, "/machine.MachineService/Kubeconfig", Empty(), Data) as chunks:
            async for chunk in chunks:
                raise_error(chunk)
                archive += chunk.bytes
        return archive

    async def main() -> int:
        target = select_target(flags)
        async with open_session(target) as session:
            outcomes = await ask_nodes(session, [need_one_node(target, "kubeconfig")], ask)
            if outcomes[0].value is not None:
                _save(_unpack(outcomes[0].value), invocation)
            return report_failures(session, outcomes)

    return run_async(main())


def _unpack(archive: bytes) -> str:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        file = tar.extractfile("kubeconfig")
        if file is None:
            raise UserError("the node's archive holds no kubeconfig")
        return file.read().decode()


def _save(text: str, invocation: Invocation) -> None:
    flags = invocation.flags
    local = invocation.args[0] if invocation.args else ""
    if local == "-":
        console.write(text)
        return
    path = _destination(local)
    if path.exists() and flags.is_set("merge"):
        old = cast("Fields", parse_yaml(path.read_text(encoding="utf-8")) or {})
        new = cast("Fields", parse_yaml(text))
        text = dump_yaml(merge(old, new, flags.text("force-context-name"), force=flags.is_set("force")))
    elif path.exists() and not flags.is_set("force"):
        raise UserError(
            "it exists", where=str(path), hint="use --force to overwrite it or --merge to add to it"
        )
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.touch(mode=0o600)
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)


def _destination(local: str) -> Path:
    if not local:
        configured = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
        return Path(configured) if configured else Path.home() / ".kube" / "config"
    path = Path(local)
    return path / "kubeconfig" if path.is_dir() or local.endswith("/") else path


def merge(old: Fields, new: Fields, context: str, *, force: bool) -> Fields:
    """The old file with the new one's entries; a name that is taken is replaced or numbered."""
    result = dict(old)
    renamed: dict[str, str] = {}
    for key in _LISTS:
        rows = [*cast("list[Fields]", old.get(key) or [])]
        for entry in cast("list[Fields]", new.get(key) or []):
            name = context if context and key == "contexts" else str(entry["name"])
            taken = {str(row["name"]) for row in rows}
            if name in taken and force:
                rows = [row for row in rows if row["name"] != name]
            elif name in taken and key == "contexts":
                name = next(f"{name}-{i}" for i in range(1, 2**16) if f"{name}-{i}" not in taken)
            elif name in taken:
                rows = [row for row in rows if row["name"] != name]
            if key == "contexts":
                renamed[str(entry["name"])] = name
            rows.append({**entry, "name": name})
        result[key] = rows
    current = str(new.get("current-context") or "")
    result["current-context"] = renamed.get(current, current)
    return result


COMMAND = Command(
    name="kubeconfig",
    usage="[local-path]",
    summary="Get the cluster's admin kubeconfig",
    details="Gets the admin kubeconfig and merges it into ~/.kube/config, or into the given file. With - "
    "prints it.",
    flags=(
        *CLIENT_FLAGS,
        Flag(name="force", short="f", type=Type.BOOL, default="false", help="overwrite what exists"),
        Flag(name="force-context-name", help="the name of the merged context"),
        Flag(name="merge", short="m", type=Type.BOOL, default="true", help="add to an existing kubeconfig"),
    ),
    most=1,
    run=run_kubeconfig,
)
