"""What an upgrade of Kubernetes finds in the way; the whole is tested on a cluster of the version before."""

import asyncio
from typing import Any, cast

from talos.api.definitions.k8s_pb2 import APIServerConfigSpec
from talos.config import contract
from talos.health.calls import ClusterNodes
from talos.kubernetes.client import KubernetesError
from talos.resource import kinds
from talos.talosctl.kubernetes.removals import REMOVALS
from talos.talosctl.kubernetes.removed import find_removed_requests, find_requested, open_servers, parse_flags

METRICS = """\
# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs that have been requested
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="storage.k8s.io",removed_release="1.37",resource="volumeattributesclasses",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="networking.k8s.io",removed_release="1.40",resource="ipaddresses",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_request_total{code="200"} 7
"""  # noqa: E501 - a line of the API server's


def test_requests_count_up_to_the_version() -> None:
    found = {"volumeattributesclasses.v1beta1.storage.k8s.io, removed in 1.37"}
    assert find_removed_requests(METRICS, (1, 37)) == found
    assert find_removed_requests(METRICS, (1, 36)) == set()
    assert find_removed_requests("", (1, 37)) == set()


class Servers:
    """The API servers of three nodes, of which the second one alone had requests for what is removed."""

    def __init__(self, url: str = "") -> None:
        self.url = url

    def at(self, url: str) -> "Servers":
        return Servers(url)

    async def read_text(self, path: str) -> str:
        assert path == "/metrics"
        if self.url == "https://10.0.0.3:6443":
            raise KubernetesError(0, REFUSED)
        return METRICS if self.url == "https://[fd00::2]:6443" else ""

    async def specs(self, node: str, kind: object) -> list[APIServerConfigSpec]:
        assert (node in NODES.control_plane, kind) == (True, kinds.API_SERVER_CONFIG)
        return [APIServerConfigSpec(local_port=6443)]


REFUSED = "10.0.0.3:6443: Connection refused"
NODES = ClusterNodes(control_plane=("10.0.0.1", "fd00::2", "10.0.0.3"), workers=("10.0.0.4",))


def test_every_api_server_is_called() -> None:
    async def find() -> list[str]:
        client = cast("Any", Servers())
        return await find_requested(await open_servers(client, NODES, client), (1, 37))

    assert asyncio.run(find()) == [
        "clients have requested volumeattributesclasses.v1beta1.storage.k8s.io, removed in 1.37",
        f"what clients have requested of the API server of node 10.0.0.3 is unknown: {REFUSED}",
    ]


def test_flags_have_values() -> None:
    argv = ["kube-apiserver", "--feature-gates=A=true,B=false", "--profiling"]
    assert dict(parse_flags(argv)) == {"feature-gates": "A=true,B=false", "profiling": ""}


def test_every_version_that_nodes_run_has_its_row() -> None:
    (major, oldest), (_, newest) = contract.KUBERNETES_MINORS
    assert list(REMOVALS) == [(major, minor) for minor in range(oldest, newest + 1)]
    for removals in REMOVALS.values():
        assert all(name.count(".") >= 2 for name in removals.resources)
        assert not any(flag.startswith("-") for flags in removals.flags.values() for flag in flags)
