"""The administrator's kubeconfig: fetched from a node, merged into the user's file, taken out of it again."""

import io
import os
import tarfile
from pathlib import Path
from typing import cast

from google.protobuf.empty_pb2 import Empty

from talos.api.common.common_pb2 import Data
from talos.client.session import Session
from talos.kubernetes.client import KubernetesClient, parse_kubeconfig
from talos.system.errors import UserError
from talos.talosctl.client.command import raise_error
from talos.talosctl.output.yaml_text import dump_yaml, parse_yaml

type Fields = dict[str, object]
type Row = dict[str, object]
_LISTS = ("clusters", "users", "contexts")


async def fetch_kubeconfig(session: Session, node: str) -> str:
    """A new kubeconfig; RpcError while the node can't issue one."""
    archive = b""
    async with session.stream(node, "/machine.MachineService/Kubeconfig", Empty(), Data) as chunks:
        async for chunk in chunks:
            raise_error(chunk)
            archive += chunk.bytes
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        file = tar.extractfile("kubeconfig")
        if file is None:
            raise UserError("the node's archive holds no kubeconfig")
        return file.read().decode()


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
    """The old file with the new one's entries; a name that is taken is replaced or numbered."""
    result: Fields = dict(old) if old else {"apiVersion": "v1", "kind": "Config"}
    renamed: dict[str, str] = {}
    for key in _LISTS:
        rows = [*_rows(old, key)]
        for entry in _rows(new, key):
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
