"""What an upgrade of Kubernetes finds in the way; the whole is tested on a cluster of the version before."""

from talos.config import contract
from talos.talosctl.kubernetes.removals import REMOVALS
from talos.talosctl.kubernetes.removed import find_removed_requests, parse_flags

METRICS = """\
# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs that have been requested
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="storage.k8s.io",removed_release="1.37",resource="volumeattributesclasses",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="networking.k8s.io",removed_release="1.40",resource="ipaddresses",subresource="",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_request_total{code="200"} 7
"""  # noqa: E501 - a line of the API server's


def test_requests_count_up_to_the_version() -> None:
    found = ["volumeattributesclasses.v1beta1.storage.k8s.io, removed in 1.37"]
    assert find_removed_requests(METRICS, (1, 37)) == found
    assert find_removed_requests(METRICS, (1, 36)) == []
    assert find_removed_requests("", (1, 37)) == []


def test_flags_have_values() -> None:
    argv = ["kube-apiserver", "--feature-gates=A=true,B=false", "--profiling"]
    assert dict(parse_flags(argv)) == {"feature-gates": "A=true,B=false", "profiling": ""}


def test_every_version_that_nodes_run_has_its_row() -> None:
    (major, oldest), (_, newest) = contract.KUBERNETES_MINORS
    assert list(REMOVALS) == [(major, minor) for minor in range(oldest, newest + 1)]
    for removals in REMOVALS.values():
        assert all(name.count(".") >= 2 for name in removals.resources)
        assert not any(flag.startswith("-") for flags in removals.flags.values() for flag in flags)
