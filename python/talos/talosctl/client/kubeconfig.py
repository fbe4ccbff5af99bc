"""The administrator's kubeconfig: fetched from a node, merged into the user's file, taken out of it again."""

import io
import os
import tarfile
import zlib
from pathlib import Path
from typing import cast

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import Data
from talos.client.session import Session
from talos.config.kubeconfig import format_kubeconfig, parse_issued
from talos.kubernetes.access import parse_kubeconfig
from talos.kubernetes.client import KubernetesClient
from talos.system.errors import UserError
from talos.talosctl.client.archive import UNREADABLE
from talos.talosctl.client.command import raise_error
from talos.talosctl.output.yaml_text import dump_yaml, parse_yaml

type Fields = dict[str, object]
type Row = dict[str, object]
FILE = "kubeconfig"
MAX_ARCHIVE = 1 << 20
"""Bytes of a node's kubeconfig, packed and unpacked."""
GZIP = 16 + zlib.MAX_WBITS
"""What zlib calls a gzip header, zlib.h."""
_LISTS = ("clusters", "users", "contexts")


async def fetch_kubeconfig(session: Session, node: str) -> str:
    """A new kubeconfig, with nothing in it but what nodes issue.

    RpcError while the node can't issue one; UserError when what it sends is none.
    """
    archive = b""
    async with session.stream(node, "/machine.MachineService/Kubeconfig", Empty(), Data) as chunks:
        async for chunk in chunks:
            raise_error(chunk)
            archive += chunk.bytes
            if len(archive) > MAX_ARCHIVE:
                raise UserError(f"the node's kubeconfig has more than {MAX_ARCHIVE} bytes")
    return format_kubeconfig(parse_issued(_unpack(archive)))


def _unpack(archive: bytes) -> str:
    """The file in a node's archive. What comes next of it is never read: it may be of any size."""
    try:
        content = zlib.decompressobj(GZIP).decompress(archive, MAX_ARCHIVE)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            member = tar.next()
            file = tar.extractfile(member) if member is not None and member.name == FILE else None
            if file is not None:
                return file.read().decode()
    except UNREADABLE as error:
        raise UserError(f"the node's kubeconfig can't be unpacked: {error}") from error
    raise UserError(f"the node's archive does not begin with a file {FILE}")


async def connect(session: Session, node: str, endpoint: str) -> KubernetesClient:
    """The Kubernetes API as its administrator, at another endpoint than the cluster's if one is given."""
    client = KubernetesClient(parse_kubeconfig(await fetch_kubeconfig(session, node)))
    if not endpoint:
        return client
    return client.at(endpoint if "://" in endpoint else f"https://{endpoint}")


def find_user_file() -> Path:
    """Where kubectl looks."""
    configured = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(configured) if configured else Path.home() / ".kube" / "config"


def merge_into(path: Path, text: str, context: str = "", *, force: bool = False) -> str:
    """Merge a kubeconfig into a file, which need not exist; the name of its context there."""
    merged = merge(_parse(path), cast("Fields", parse_yaml(text)), context, force=force)
    save(path, dump_yaml(merged))
    return str(merged["current-context"])


def find_context(text: str) -> str:
    """The name of a kubeconfig's current context."""
    return str(cast("Fields", parse_yaml(text)).get("current-context") or "")


def remove_from(path: Path, text: str) -> list[str]:
    """Take the clusters of a kubeconfig out of a file, with contexts and users; the contexts' names.

    A cluster is known by its authority, as its name may be another one's by now.
    """
    user = _parse(path)
    own = {_authority(row) for row in _rows(cast("Fields", parse_yaml(text)), "clusters")}
    clusters = {row["name"] for row in _rows(user, "clusters") if _authority(row) in own}
    contexts = _rows(user, "contexts")
    gone = [row for row in contexts if _part(row, "context").get("cluster") in clusters]
    left = [row for row in contexts if row not in gone]
    if not clusters:
        return []
    needed = {_part(row, "context").get("user") for row in left}
    users = {_part(row, "context").get("user") for row in gone} - needed
    names = [str(row["name"]) for row in gone]
    current = user.get("current-context")
    result = {
        **user,
        "clusters": [row for row in _rows(user, "clusters") if row["name"] not in clusters],
        "users": [row for row in _rows(user, "users") if row["name"] not in users],
        "contexts": left,
        "current-context": next((row["name"] for row in left), "") if current in names else current,
    }
    save(path, dump_yaml(result))
    return names


def save(path: Path, text: str) -> None:
    """Replace a file that only its owner may read."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.touch(mode=0o600)
    partial.write_text(text, encoding="utf-8")
    partial.rename(path)


def merge(old: Fields, new: Fields, context: str, *, force: bool) -> Fields:
    """The old file with the new one's entries; a name that is taken is replaced or numbered.

    Without force, no context of another cluster gets what a node has sent: cluster and user are numbered when
    the old one of that name has another authority, or is used by contexts of another cluster.
    """
    result: Fields = dict(old) if old else {"apiVersion": "v1", "kind": "Config"}
    renamed: dict[str, dict[str, str]] = {key: {} for key in _LISTS}
    for key in _LISTS:
        rows = [*_rows(old, key)]
        for entry in _rows(new, key):
            name = context if context and key == "contexts" else str(entry["name"])
            taken = {str(row["name"]) for row in rows}
            if name in taken and not force and _is_anothers(old, entry, key, renamed):
                name = next(f"{name}-{i}" for i in range(1, 2**16) if f"{name}-{i}" not in taken)
            renamed[key][str(entry["name"])] = name
            rows = [row for row in rows if row["name"] != name]
            rows.append(_rename(entry, name, renamed))
        result[key] = rows
    current = str(new.get("current-context") or "")
    result["current-context"] = renamed["contexts"].get(current, current)
    return result


def _is_anothers(old: Fields, entry: Row, key: str, renamed: dict[str, dict[str, str]]) -> bool:
    """Whether an old entry with the name of a new one is to stay."""
    name = str(entry["name"])
    if key == "clusters":
        return any(
            row["name"] == name and _authority(row) != _authority(entry) for row in _rows(old, "clusters")
        )
    if key == "users":
        own = set(renamed["clusters"].values())
        uses = (_part(row, "context") for row in _rows(old, "contexts"))
        return any(use.get("user") == name and use.get("cluster") not in own for use in uses)
    return True


def _rename(entry: Row, name: str, renamed: dict[str, dict[str, str]]) -> Row:
    context = _part(entry, "context")
    if not context:
        return {**entry, "name": name}
    names = {
        key: renamed[f"{key}s"].get(str(context.get(key)), context.get(key)) for key in ("cluster", "user")
    }
    return {"name": name, "context": {**context, **names}}


def _parse(path: Path) -> Fields:
    """A user's file, empty when it is not there; UserError when it is no kubeconfig."""
    try:
        content: object = parse_yaml(path.read_text(encoding="utf-8"), source=str(path)) or {}
    except FileNotFoundError:
        return {}
    hint = "repair it, or name another file in KUBECONFIG"
    if not isinstance(content, dict):
        raise UserError("is no kubeconfig", where=str(path), hint=hint)
    fields = cast("Fields", content)
    for key in _LISTS:
        rows: object = fields.get(key) or list[object]()
        if not isinstance(rows, list) or not all(_has_name(row) for row in cast("list[object]", rows)):
            raise UserError(f"{key} is no list of entries with names", where=str(path), hint=hint)
    return fields


def _has_name(row: object) -> bool:
    return isinstance(row, dict) and "name" in row


def _rows(fields: Fields, key: str) -> list[Row]:
    return cast("list[Row]", fields.get(key) or [])


def _part(row: Row, key: str) -> Row:
    found = row.get(key)
    return cast("Row", found) if isinstance(found, dict) else {}


def _authority(row: Row) -> object:
    # A cluster without one is trusted by the system's authorities: it is none of ours.
    return _part(row, "cluster").get("certificate-authority-data") or object()
