"""The control plane's pods: arguments of users, users of their own, restarts when files change."""

from typing import Any

from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.config.effective import api_server, kubernetes
from talos.config.model import Config
from talos.config.read.loader import load
from talos.config.static_pods import UIDS
from talos.kubed import pods
from talos.kubed.controllers.control_plane import (
    make_api_server,
    make_controller_manager,
    make_scheduler,
)
from talos.kubed.controllers.static_pod_server import make_reply
from talos.kubed.controllers.static_pod_status import has_taken
from talos.kubed.controllers.static_pods import make_account_arguments
from talos.machined.controllers.k8s.kubelet import make_configuration, make_kubelet_config
from talos.resource.objects import to_plain, to_struct

CONFIG = """\
version: v1alpha1
machine: {type: controlplane, token: abcdef.0123456789abcdef}
---
apiVersion: v1alpha1
kind: KubeClusterConfig
clusterName: test
endpoint: https://10.5.0.2:6443
---
apiVersion: v1alpha1
kind: KubeNetworkConfig
podSubnets: [10.244.0.0/16]
serviceSubnets: [10.96.0.0/12]
---
apiVersion: v1alpha1
kind: KubeAPIServerConfig
image: registry.example/kube-apiserver:v9
extraArgs:
  profiling: "true"
  feature-gates: [A=true, B=true]
env: {HTTPS_PROXY: "http://proxy:3128"}
---
apiVersion: v1alpha1
kind: KubeSchedulerConfig
resources: {limits: {memory: 1Gi}}
---
apiVersion: v1alpha1
kind: KubeNodeConfig
taints: {node-role.kubernetes.io/control-plane: NoSchedule, dedicated: "db:NoExecute"}
---
apiVersion: v1alpha1
kind: KubeletConfig
config: {maxPods: 42, memorySwap: {swapBehavior: NoSwap}}
"""


def parse() -> Config:
    return load(CONFIG)


def make_server(versions: dict[str, str]) -> dict[str, Any]:
    root = KubernetesRootSpec(
        issuer_url="https://a", accepted_issuers=["https://b"], api_audiences=["https://a"]
    )
    return pods.make_api_server(make_api_server(parse()), versions, make_account_arguments(root))


def container_of(pod: dict[str, Any]) -> dict[str, Any]:
    return pod["spec"]["containers"][0]


def test_arguments_of_the_user_replace_ours() -> None:
    command = container_of(make_server({}))["command"]
    assert command[0] == "/usr/local/bin/kube-apiserver"
    assert "--profiling=true" in command
    assert "--profiling=false" not in command
    assert [word for word in command if word.startswith("--feature-gates")] == [
        "--feature-gates=A=true",
        "--feature-gates=B=true",
    ]
    assert [word for word in command if word.startswith("--service-account-issuer")] == [
        "--service-account-issuer=https://a",
        "--service-account-issuer=https://b",
    ]


def test_the_api_server_starts_with_a_probe_of_its_own_unless_it_is_off() -> None:
    for text, expected in (("", True), ("startupProbes: true\n", True), ("startupProbes: false\n", False)):
        config = load(CONFIG.replace("kind: KubeAPIServerConfig\n", f"kind: KubeAPIServerConfig\n{text}"))
        container = container_of(pods.make_api_server(make_api_server(config), {}, {}))
        assert ("startupProbe" in container) is expected
        assert {"livenessProbe", "readinessProbe"} <= container.keys()


def test_each_program_is_a_user_of_its_own() -> None:
    config = parse()
    found = [
        make_server({}),
        pods.make_controller_manager(make_controller_manager(config), {}),
        pods.make_scheduler(make_scheduler(config), {}),
    ]
    for pod in found:
        context = pod["spec"]["securityContext"]
        assert context["runAsUser"] == UIDS[pod["metadata"]["name"]]
        assert container_of(pod)["securityContext"]["allowPrivilegeEscalation"] is False
    assert len({pod["spec"]["securityContext"]["runAsUser"] for pod in found}) == 3


def test_files_of_another_version_are_another_pod() -> None:
    before, after = (
        make_server({"talos.dev/secrets-version": "a"}),
        make_server({"talos.dev/secrets-version": "b"}),
    )
    assert before != after
    assert before["metadata"].pop("annotations") != after["metadata"].pop("annotations")
    assert before == after


def test_environment_and_resources_are_the_users() -> None:
    env = {one["name"]: one for one in container_of(make_server({}))["env"]}
    assert env["HTTPS_PROXY"]["value"] == "http://proxy:3128"
    scheduler = container_of(pods.make_scheduler(make_scheduler(parse()), {}))
    assert scheduler["resources"]["limits"] == {"memory": "1Gi"}


def test_the_kubelet_gets_whole_numbers_and_the_users_fields() -> None:
    spec = make_kubelet_config(parse(), "http://127.0.0.1:1234")
    found = to_plain(make_configuration(spec, is_container=True, is_control_plane=False))
    assert (found["maxPods"], found["port"]) == (42, 10250)
    assert isinstance(found["port"], int)
    assert found["memorySwap"] == {"swapBehavior": "NoSwap"}
    assert found["authentication"]["anonymous"] == {"enabled": False}
    assert found["staticPodURL"] == "http://127.0.0.1:1234"
    assert found["clusterDNS"] == ["10.96.0.10"]
    taints = {taint["key"]: (taint.get("value"), taint["effect"]) for taint in found["registerWithTaints"]}
    assert taints == {
        "dedicated": ("db", "NoExecute"),
        "node-role.kubernetes.io/control-plane": (None, "NoSchedule"),
    }


def test_a_machine_protects_what_a_container_does_not_have() -> None:
    spec = make_kubelet_config(parse(), "")
    machine = to_plain(make_configuration(spec, is_container=False, is_control_plane=True))
    container = to_plain(make_configuration(spec, is_container=True, is_control_plane=False))
    assert machine["protectKernelDefaults"] is True
    assert machine["shutdownGracePeriod"] == container["shutdownGracePeriod"] == "30s"
    assert container.keys().isdisjoint({"protectKernelDefaults", "systemCgroups"})
    assert (machine["oomScoreAdj"], container["oomScoreAdj"]) == (-450, 0)


def test_node_and_rbac_are_always_authorizers() -> None:
    assert [kind for kind, _, _ in api_server.authorizers(parse())] == ["Node", "RBAC"]


def test_an_old_config_says_the_same_as_its_documents() -> None:
    old = load(
        "version: v1alpha1\nmachine: {type: controlplane}\n"
        "cluster: {apiServer: {image: 'a:v1', extraArgs: {profiling: 'true'}}, controllerManager: {}}\n"
    )
    assert kubernetes.api_server(old).image == "a:v1"
    assert kubernetes.api_server(old).extra_args == {"profiling": ("true",)}
    assert kubernetes.controller_manager(old).enabled
    assert kubernetes.prism_port(old) == 0


def test_objects_survive_the_state() -> None:
    value = {"a": [1, 2.5, {"b": None}], "c": {"d": True, "e": "x"}}
    assert to_plain(to_struct(value)) == value


def test_the_list_of_pods_is_one_reply() -> None:
    head, _, body = make_reply([{"kind": "Pod"}]).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert f"Content-Length: {len(body)}".encode() in head


def test_the_kubelet_has_taken_a_change_when_the_new_is_ready_and_the_old_gone() -> None:
    def offer(image: str) -> dict[str, Any]:
        return {"metadata": {"annotations": {}}, "spec": {"containers": [{"name": "main", "image": image}]}}

    def show(image: str, ready: str = "True", source: str = "http") -> dict[str, Any]:
        conditions = [{"type": "Ready", "status": ready}]
        annotations = {"kubernetes.io/config.source": source}
        return {
            **offer(image),
            "metadata": {"annotations": annotations},
            "status": {"conditions": conditions},
        }

    assert has_taken([show("a")], [offer("a")])
    assert not has_taken([show("a")], [offer("b")])
    assert not has_taken([show("b", ready="False")], [offer("b")])
    assert not has_taken([show("a"), show("b")], [offer("b")])
    assert not has_taken([show("a", ready="False")], [])
    assert has_taken([show("b"), show("c", source="file")], [offer("b"), offer("c")])


def test_a_pod_writes_to_memory_alone_and_has_upstreams_labels() -> None:
    pod = make_server({})
    assert container_of(pod)["securityContext"]["readOnlyRootFilesystem"]
    writable = {one["mountPath"] for one in container_of(pod)["volumeMounts"] if not one.get("readOnly")}
    assert writable == {"/tmp", "/var/run/kubernetes", pods.AUDIT_LOGS}
    assert pod["metadata"]["labels"]["app.kubernetes.io/version"] == "v9"
    assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Talos"
    assert pods.find_version("registry.example:5000/kube-apiserver@sha256:0") == ""


def test_a_volume_of_the_user_takes_the_place_of_ours() -> None:
    volumes = (
        "{hostPath: /var/ca, mountPath: /etc/ssl/certs, readonly: true}, "
        "{hostPath: /var/x, mountPath: /config}, "
        "{hostPath: /var/y, mountPath: /var/lib/a_b.c/}"
    )
    config = load(
        "version: v1alpha1\nmachine: {type: controlplane}\n"
        f"cluster: {{apiServer: {{image: 'a:v1', extraVolumes: [{volumes}]}}}}\n"
    )
    pod = pods.make_api_server(make_api_server(config), {}, {})
    paths = {one["name"]: one["mountPath"] for one in container_of(pod)["volumeMounts"]}
    assert len(set(paths.values())) == len(paths)
    assert paths["etc-ssl-certs"] == pods.CA_ROOTS
    assert paths["config-extra"] == "/config"
    assert paths["var-lib-a-b-c"] == "/var/lib/a_b.c/"
    assert "ca-roots" not in paths
    assert {one["name"] for one in pod["spec"]["volumes"]} == paths.keys()


def test_variables_are_as_given_and_go_keeps_below_the_limit() -> None:
    found = pods.make_environment({"B": "$(A)", "A": "x"}, "1Gi")
    assert {one["name"]: one.get("value") for one in found} == {
        "POD_IP": None,
        "GOMEMLIMIT": "1020054732",
        "A": "x",
        "B": "$$(A)",
    }
    assert len(pods.make_environment({}, "")) == 1
    assert len(pods.make_environment({}, "1e9")) == 1
    (limit,) = (
        one for one in pods.make_environment({"GOMEMLIMIT": "1"}, "1Gi") if one["name"] == "GOMEMLIMIT"
    )
    assert limit["value"] == "1"


def test_probes_call_only_an_api_server_that_answers_them() -> None:
    refusing = load("version: v1alpha1\nmachine: {type: controlplane}\ncluster: {}\n")
    container = container_of(pods.make_api_server(make_api_server(refusing), {}, {}))
    assert "--anonymous-auth=false" in container["command"]
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[name]["tcpSocket"] == {"host": "127.0.0.1", "port": 6443}
        assert "httpGet" not in container[name]
