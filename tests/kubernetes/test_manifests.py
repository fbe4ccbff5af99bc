"""Manifests of the machine config become objects, and what can't is named while the others are there."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.harness.serving import serving

HEADER, TOKEN = "X-Token", "secret"
BEGINNING = ("05-flannel", "10-kube-proxy", "11-core-dns")


def make_map(name: str, value: str) -> str:
    metadata = {"name": name, "namespace": "default"}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}
    )


def inline(name: str, text: str) -> dict[str, Any]:
    return {"apiVersion": "v1alpha1", "kind": "KubeInlineManifestConfig", "name": name, "manifest": text}


@contextmanager
def served(text: str) -> Generator[int]:
    """A web server on every address of this machine that wants a header; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.headers.get(HEADER) == TOKEN
            self.send_response(200 if is_known else 401)
            self.end_headers()
            self.wfile.write(text.encode() if is_known else b"")

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    with serving(ThreadingHTTPServer(("", 0), Handler)) as server:
        yield server.server_port


def change(kubernetes: Kubernetes, *documents: dict[str, Any]) -> None:
    """Patch the config of the control plane node."""
    node = kubernetes.cluster.addresses[0]
    patch = yaml.safe_dump_all(documents)
    kubernetes.cluster.talosctl("-n", node, "patch", "machineconfig", "--patch", patch)


@pytest.fixture
def manifests(kubernetes: Kubernetes) -> Iterator[Kubernetes]:
    """Manifests of all kinds: good ones, one that is refused, one that is no YAML, one that isn't served."""
    gateway = str(kubernetes.cluster.info.gateway)
    with served(make_map("fetched", "from a URL")) as port:
        url = f"http://{gateway}:{port}/a.yaml"
        external = {"apiVersion": "v1alpha1", "kind": "KubeExternalManifestConfig", "url": url}
        documents = [
            inline("good", make_map("good", "from the config")),
            inline("refused", make_map("refused", "").replace("ConfigMap", "Service")),
            inline("unreadable", "a: ["),
            {**external, "name": "fetched", "headers": {HEADER: TOKEN}},
            {**external, "name": "forbidden"},
        ]
        change(kubernetes, *documents)
        yield kubernetes
        keys = ("apiVersion", "kind", "name")
        change(kubernetes, *({**{key: one[key] for key in keys}, "$patch": "delete"} for one in documents))


def test_the_users_manifests_are_applied_and_mistakes_are_named(manifests: Kubernetes) -> None:
    def is_applied() -> None:
        (status,) = manifests.cluster.resource("manifeststatus")
        spec: Any = status["spec"]
        applied = set(spec["manifestsApplied"])
        assert {"99-good", "99-fetched", *BEGINNING} <= applied
        assert not {"99-refused", "99-forbidden", "99-unreadable"} & applied

    def is_named() -> None:
        rows: list[dict[str, Any]] = [*manifests.cluster.resource("diagnostics")]
        found = {one["metadata"]["id"]: one["spec"] for one in rows}
        refused, unread = (
            found.get(name, {}).get("details", []) for name in ("manifests", "extra-manifests")
        )
        assert [one.partition(":")[0] for one in refused] == ["Service/default/refused"]
        assert [one.partition(":")[0] for one in unread] == ["forbidden", "unreadable"]
        assert "401" in unread[0]
        assert "1:5" in unread[1] or "2:1" in unread[1]

    eventually("the good ones are applied", is_applied, pause=0.5)
    eventually("the others are named", is_named, pause=0.5)
    for name, value in (("good", "from the config"), ("fetched", "from a URL")):
        (found,) = manifests.get("configmap", name)
        assert found["data"] == {"key": value}
        fields = manifests.get("configmap", name, "--show-managed-fields")[0]["metadata"]["managedFields"]
        assert [(one["manager"], one["operation"]) for one in fields] == [("talos", "Apply")]
    (inventory,) = manifests.get("configmap", "-n", "kube-system", "talos-bootstrap-manifests-inventory")
    assert {"default_good__ConfigMap", "default_fetched__ConfigMap"} <= inventory["data"].keys()


def test_what_the_user_changes_or_removes_is_the_users(manifests: Kubernetes) -> None:
    def is_there() -> None:
        assert manifests.kubectl("get", "configmap", "good", "fetched", check=False).returncode == 0

    eventually("the objects are there", is_there, pause=0.5)
    manifests.kubectl("patch", "configmap", "good", "-p", '{"data": {"key": "the user\'s"}}')
    manifests.kubectl("delete", "configmap", "fetched")
    # A further manifest makes the node look at all of them.
    more = inline("more", make_map("more", ""))
    change(manifests, more)

    def is_more() -> None:
        assert manifests.kubectl("get", "configmap", "more", check=False).returncode == 0

    eventually("another manifest is applied", is_more, pause=0.5)
    change(manifests, {"apiVersion": "v1alpha1", "kind": more["kind"], "name": "more", "$patch": "delete"})
    (good,) = manifests.get("configmap", "good")
    assert good["data"] == {"key": "the user's"}
    assert manifests.kubectl("get", "configmap", "fetched", check=False).returncode != 0
    manifests.kubectl("delete", "configmap", "good", "more")


def test_mended_manifests_leave_no_diagnostic(kubernetes: Kubernetes) -> None:
    def is_quiet() -> None:
        assert kubernetes.cluster.resource("diagnostics") == []

    eventually("nothing is diagnosed any more", is_quiet, pause=0.5)
