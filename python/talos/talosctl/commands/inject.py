"""``talosctl inject``: what Kubernetes manifests need to use the nodes' API."""

import copy
import sys
from collections.abc import Iterator, Sequence
from typing import Any, cast

from talos.config.read.nodes import plain
from talos.config.read.tree import parse_documents
from talos.system.errors import UserError
from talos.system.files import read_file
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Type
from talos.talosctl.output import console
from talos.talosctl.output.yaml_text import dump_yaml

API_VERSION, KIND = "talos.dev/v1alpha1", "ServiceAccount"
VOLUME, SUFFIX = "talos-secrets", "-talos-secrets"
MOUNT_PATH = "/var/run/secrets/talos.dev"
"""Where a pod finds its talosconfig, in a file named ``config``."""
STDIN = "-"

_POD_SPECS: dict[tuple[str, str], tuple[str, ...]] = {
    ("v1", "Pod"): ("spec",),
    ("apps/v1", "Deployment"): ("spec", "template", "spec"),
    ("apps/v1", "StatefulSet"): ("spec", "template", "spec"),
    ("apps/v1", "DaemonSet"): ("spec", "template", "spec"),
    ("batch/v1", "Job"): ("spec", "template", "spec"),
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
}
"""Where a kind has the description of its pods."""

type Object = dict[str, Any]


def run_service_account(invocation: Invocation) -> int:
    """Print manifests with the secret of a service account mounted, and the service accounts."""
    path = invocation.flags.text("file")
    if not path:
        raise UserError("there are no manifests", where="--file", hint="- reads the input")
    content = sys.stdin.buffer.read() if path == STDIN else read_file(path)
    objects = list(_objects(content, path))
    for document in inject(objects, invocation.flags.texts("roles")):
        console.write(dump_yaml(document) + "---\n")
    return 0


def _objects(content: bytes, source: str) -> Iterator[Object]:
    for node in parse_documents(content, source=source):
        value = plain(node)
        if value is None:
            continue
        if not isinstance(value, dict):
            raise UserError("a Kubernetes object is a mapping", where=f"{source}:{node.mark.line}")
        yield cast("Object", value)


def inject(objects: Sequence[Object], roles: Sequence[str]) -> Iterator[Object]:
    """The objects, each with pods followed by its service account; injecting twice changes nothing."""
    known: set[tuple[str, str]] = set()
    for given in objects:
        metadata = cast("Object", given.get("metadata") or {})
        name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
        identity = (namespace, name.removesuffix(SUFFIX))
        kind = (str(given.get("apiVersion")), str(given.get("kind")))
        if kind == (API_VERSION, KIND):
            if identity not in known:
                known.add(identity)
                yield given
            continue
        if kind not in _POD_SPECS or not name:
            yield given
            continue
        changed = copy.deepcopy(given)
        _mount_secret(_pod_spec(changed, _POD_SPECS[kind]), name + SUFFIX)
        yield changed
        if identity not in known:
            known.add(identity)
            yield _service_account(name + SUFFIX, namespace, roles)


def _service_account(name: str, namespace: str, roles: Sequence[str]) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"roles": list(roles)}}


def _pod_spec(given: Object, path: Sequence[str]) -> Object:
    spec = given
    for key in path:
        below = spec.get(key)
        if not isinstance(below, dict):
            name = cast("Object", given["metadata"])["name"]
            raise UserError("it describes no pods", where=f"{given['kind']} {name}", hint=".".join(path))
        spec = cast("Object", below)
    return spec


def _mount_secret(pod: Object, secret: str) -> None:
    _replace(pod, "volumes", {"name": VOLUME, "secret": {"secretName": secret}})
    for key in ("initContainers", "containers"):
        for container in cast("list[Object]", pod.get(key) or []):
            _replace(container, "volumeMounts", {"name": VOLUME, "mountPath": MOUNT_PATH})


def _replace(owner: Object, key: str, row: Object) -> None:
    others = [
        other for other in cast("list[Object]", owner.get(key) or []) if other.get("name") != row["name"]
    ]
    owner[key] = [*others, row]


COMMAND = Command(
    name="inject",
    summary="Add what pods need to use the nodes' API",
    commands=(
        Command(
            name="serviceaccount",
            aliases=("tsa",),
            usage="[--roles='<ROLE_1>,<ROLE_2>'] -f <manifest.yaml>",
            summary="Add service accounts of the nodes' API to Kubernetes manifests",
            details="Prints the manifests with the secret of a service account mounted into each container "
            f"of their pods at {MOUNT_PATH}, and the service accounts.",
            example='talosctl inject serviceaccount --roles="os:admin" -f deployment.yaml > injected.yaml',
            flags=(
                Flag(name="file", short="f", help="the file with the manifests, - reads the input"),
                Flag(
                    name="roles",
                    short="r",
                    type=Type.STRINGS,
                    default="os:reader",
                    help="what the pods may do",
                ),
            ),
            run=run_service_account,
        ),
    ),
)
