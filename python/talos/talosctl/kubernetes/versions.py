"""Versions of Kubernetes: what runs, what may follow it, and what a version of the system can run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from talos.config import contract
from talos.kubernetes.client import KubernetesClient
from talos.system.errors import UserError
from talos.upgrade.release.manifest import find_version, parse_version

type VersionKey = tuple[int, int, int, int, int]

SUPPORTED: Mapping[tuple[int, int], tuple[tuple[int, int], tuple[int, int]]] = {
    (1, 14): ((1, 32), (1, 37)),
    (1, 15): contract.KUBERNETES_MINORS,
}
"""Of each version of the system, the oldest and the newest of Kubernetes: six, as upstream, up to the one
that nodes have been tried with."""
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
PODS = "/api/v1/namespaces/kube-system/pods"


def parse(text: str, where: str) -> VersionKey:
    """A version with or without ``v``; UserError."""
    try:
        return parse_version(f"v{text.removeprefix('v')}")
    except ValueError:
        raise UserError(f'"{text}" is not a version', where=where, hint="such as 1.37.1") from None


async def find_running(client: KubernetesClient) -> list[str]:
    """The versions that run in the cluster, the lowest first, without ``v``; KubernetesError, UserError."""
    nodes: Sequence[Any] = await client.list_all("/api/v1/nodes")
    selector = f"labelSelector=k8s-app+in+({','.join(PROGRAMS)})"
    pods: Sequence[Any] = await client.list_all(f"{PODS}?{selector}")
    found = {str(node["status"]["nodeInfo"]["kubeletVersion"]) for node in nodes}
    found |= {find_version(one["image"]) for pod in pods for one in pod["spec"]["containers"]}
    return sort_versions(filter(None, found))


def sort_versions(versions: Iterable[str]) -> list[str]:
    """From the lowest on, without ``v``; those that are none don't count. UserError when none is one."""
    known: list[tuple[VersionKey, str]] = []
    for text in versions:
        try:
            known.append((parse_version(text), text))
        except ValueError:
            continue
    if not known:
        raise UserError("no version of Kubernetes is found in the cluster", hint="name it: --from")
    return [text.removeprefix("v") for _, text in sorted(known)]


def check_path(source: str, target: str) -> None:
    """UserError unless one version can follow the other: of the same minor version, or the next."""
    old, new = parse(source, "--from"), parse(target, "--to")
    path = f"{old[0]}.{old[1]}->{new[0]}.{new[1]}"
    if old[0] == new[0] and 0 <= new[1] - old[1] <= 1:
        return
    between = f"{old[0]}.{old[1] + 1}"
    hint = f"upgrade to {between} first" if (old[0], old[1] + 1) < new[:2] else "a minor version only goes up"
    raise UserError(f"unsupported upgrade path {path} (from {source!r} to {target!r})", hint=hint)


def check_default(running: Sequence[str], target: str) -> None:
    """UserError when the version of a flag that was not given is older than what runs, the lowest first."""
    newest = running[-1]
    if parse(newest, "the cluster") > parse(target, "--to"):
        raise UserError(
            f"{newest} runs, which is newer than {target}, the version without the flag",
            where="--to",
            hint="name the version to upgrade to",
        )


def check_support(system: str, target: str, node: str) -> None:
    """UserError unless a node's version of the system runs this version of Kubernetes."""
    release, wanted = parse(system, node)[:2], parse(target, "--to")[:2]
    if release not in SUPPORTED:
        known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
        raise UserError(f"it runs Talos {system}, this client upgrades {known}", where=f"node {node}")
    oldest, newest = SUPPORTED[release]
    if not oldest <= wanted <= newest:
        problem = "too old" if wanted < oldest else "too new"
        raise UserError(
            f"version of Kubernetes {target} is {problem} to be used with Talos {system}",
            where=f"node {node}",
            hint=f"it runs {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}",
        )
