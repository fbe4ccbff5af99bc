"""What a cluster uses that the next version of Kubernetes does not have, found before an upgrade."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from talos.client.endpoint import Endpoint
from talos.health.calls import ClusterNodes, NodeCalls
from talos.kubernetes.client import KubernetesClient, KubernetesError
from talos.resource import kinds
from talos.resource.objects import to_plain
from talos.talosctl.client.health import SessionCalls
from talos.talosctl.kubernetes.components import STATIC_PODS
from talos.talosctl.kubernetes.removals import Minor, RemovedFeatures

REQUESTED = "apiserver_requested_deprecated_apis"
"""The gauge of what was requested since the API server's start, one for each version of a kind."""
PROGRAMS = [component.name for component in STATIC_PODS]
_SAMPLE = re.compile(rf"^{REQUESTED}\{{(.*)\}} ", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"\\]*)"')

type Item = tuple[str, str, str]
"""Node, program, and the name of what is removed."""


async def find_settings(
    calls: SessionCalls, nodes: ClusterNodes, removals: RemovedFeatures
) -> dict[str, list[Item]]:
    """By its title, each setting of a program that is removed; RpcError."""
    found: dict[str, list[Item]] = {}

    def add(title: str, node: str, program: str, names: Iterable[str]) -> None:
        found.setdefault(title, []).extend((node, program, name) for name in names)

    def check(node: str, program: str, argv: Sequence[str], gates: Iterable[str] = ()) -> None:
        flags = dict(parse_flags(argv))
        of_flag = (gate.partition("=")[0] for gate in flags.get("feature-gates", "").split(","))
        wanted = {*gates, *of_flag}
        plugins = flags.get("enable-admission-plugins", "").split(",")
        add("REMOVED ADMISSION PLUGIN", node, program, (one for one in removals.plugins if one in plugins))
        add("REMOVED FEATURE GATE", node, program, (one for one in removals.gates if one in wanted))
        gone = removals.flags.get(program, ())
        add("REMOVED FLAG", node, program, (one for one in gone if one in flags))

    for node in nodes.control_plane:
        for spec in await calls.specs(node, kinds.STATIC_POD):
            pod = to_plain(spec.pod)
            program, containers = pod["metadata"]["name"], pod["spec"]["containers"]
            if program in PROGRAMS:
                check(node, program, [*containers[0].get("command", ()), *containers[0].get("args", ())])
    for node in nodes.all:
        for spec in await calls.specs(node, kinds.KUBELET_SPEC):
            gates: Mapping[str, bool] = to_plain(spec.config).get("featureGates") or {}
            check(node, "kubelet", spec.args, gates)
    return {title: items for title, items in found.items() if items}


async def find_objects(client: KubernetesClient, removals: RemovedFeatures) -> list[tuple[str, str]]:
    """The removed kinds that have objects, and how many; KubernetesError."""
    found: list[tuple[str, str]] = []
    for name in removals.resources:
        resource, version, group = name.split(".", 2)
        listed = await client.get_or_none(f"/apis/{group}/{version}/{resource}")
        if listed and listed["items"]:
            found.append((name, str(len(listed["items"]))))
    return found


async def open_servers(
    calls: NodeCalls, nodes: ClusterNodes, client: KubernetesClient
) -> dict[str, KubernetesClient]:
    """A client of each node's API server, and of the endpoint: a node may not be in reach. RpcError."""
    servers = {"at the endpoint": client}
    for node in nodes.control_plane:
        for spec in await calls.specs(node, kinds.API_SERVER_CONFIG):
            servers[f"of node {node}"] = client.at(f"https://{Endpoint(host=node, port=spec.local_port)}")
    return servers


async def find_requested(servers: Mapping[str, KubernetesClient], target: Minor) -> list[str]:
    """What clients have requested since the API servers' starts, of which each counts on its own, as lines.

    A server without an answer has its line, too.
    """

    async def fetch(name: str) -> set[str]:
        try:
            found = find_removed_requests(await servers[name].read_text("/metrics"), target)
        except KubernetesError as error:
            return {f"what clients have requested of the API server {name} is unknown: {error}"}
        return {f"clients have requested {one}" for one in found}

    return sorted(set[str]().union(*await asyncio.gather(*map(fetch, servers))))


def find_removed_requests(metrics: str, target: Minor) -> set[str]:
    """The same from the text of one server's metrics."""
    found: set[str] = set()
    for sample in _SAMPLE.finditer(metrics):
        labels = dict(_LABEL.findall(sample[1]))
        major, _, minor = labels.get("removed_release", "").partition(".")
        if major.isdecimal() and minor.isdecimal() and (int(major), int(minor)) <= target:
            name = f"{labels.get('resource')}.{labels.get('version')}.{labels.get('group')}"
            found.add(f"{name}, removed in {major}.{minor}")
    return found


def parse_flags(argv: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The flags of a command line with their values, without ``--``."""
    for word in argv:
        if word.startswith("--"):
            name, _, value = word.removeprefix("--").partition("=")
            yield name, value
