"""Arguments of Kubernetes' programs that merge, are joined or are refused, in files and in commands."""

from typing import Any

import pytest

from talos.config.arguments import KUBELET, PROXY, RULES, merge_arguments
from talos.config.check.validate import validate
from talos.config.read.loader import load
from talos.config.static_pods import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from talos.kubed import pods
from talos.kubed.controllers.control_plane import (
    make_api_server,
    make_controller_manager,
    make_scheduler,
)
from talos.kubed.controllers.manifests import make_bootstrap_config
from talos.kubed.manifests.proxy import make_proxy
from talos.machined.controllers.k8s.kubelet import make_arguments, make_configuration, make_kubelet_config
from talos.system.errors import UserError

PLACES = {
    API_SERVER: ("cluster", "apiServer", "KubeAPIServerConfig"),
    CONTROLLER_MANAGER: ("cluster", "controllerManager", "KubeControllerManagerConfig"),
    SCHEDULER: ("cluster", "scheduler", "KubeSchedulerConfig"),
    PROXY: ("cluster", "proxy", "KubeProxyConfig"),
    KUBELET: ("machine", "kubelet", "KubeletConfig"),
}
DENIED = [(program, name) for program, rules in RULES.items() for name in sorted(rules.denied)]
BASE = """version: v1alpha1
machine: {type: controlplane%s}
cluster: {controlPlane: {endpoint: "https://10.5.0.2:6443"}%s}
"""


def make_text(program: str, settings: str, *, document: bool) -> str:
    section, key, kind = PLACES[program]
    if document:
        head = f"apiVersion: v1alpha1, kind: {kind}, image: a:v1.37.0"
        return BASE % ("", "") + f"---\n{{{head}, {settings}}}\n"
    inserted = f", {key}: {{{settings}}}"
    return BASE % ((inserted, "") if section == "machine" else ("", inserted))


def find_words(program: str, settings: str, *, document: bool = False) -> list[str]:
    """A program's command line."""
    config = load(make_text(program, settings, document=document))
    found: dict[str, Any]
    match program:
        case "kube-apiserver":
            found = pods.make_api_server(make_api_server(config), {}, {})
        case "kube-controller-manager":
            found = pods.make_controller_manager(make_controller_manager(config), {})
        case "kube-scheduler":
            found = pods.make_scheduler(make_scheduler(config), {})
        case "kube-proxy":
            found = make_proxy(make_bootstrap_config(config))[-1]["spec"]["template"]
        case _:
            return make_arguments(make_kubelet_config(config, ""), "node", ["10.5.0.2"])
    return found["spec"]["containers"][0]["command"]


@pytest.mark.parametrize("document", [False, True], ids=["main", "document"])
@pytest.mark.parametrize(("program", "name"), DENIED)
def test_what_is_the_systems_alone_is_refused(program: str, name: str, document: bool) -> None:
    settings = f"extraArgs: {{{name}: x}}"
    errors = validate(load(make_text(program, settings, document=document))).errors
    (found,) = [str(one) for one in errors if f'"{name}" is not allowed' in str(one)]
    assert f"extraArgs[{name}]" in found
    with pytest.raises(UserError, match=f'extra arg "{name}" is not allowed'):
        find_words(program, settings, document=document)


def test_a_plugin_of_the_user_leaves_the_systems_on() -> None:
    for given in ("PodNodeSelector", "' PodNodeSelector , NodeRestriction,'", "[PodNodeSelector]"):
        words = find_words(API_SERVER, f"extraArgs: {{enable-admission-plugins: {given}}}")
        (plugins,) = [word for word in words if word.startswith("--enable-admission-plugins")]
        assert plugins == "--enable-admission-plugins=NodeRestriction,PodNodeSelector"


def test_controllers_are_added_and_networks_too() -> None:
    settings = "extraArgs: {controllers: '-ttl', service-cluster-ip-range: fd00::/108, profiling: 'true'}"
    words = find_words(CONTROLLER_MANAGER, settings)
    assert "--controllers=*,tokencleaner,-ttl" in words
    assert "--service-cluster-ip-range=10.96.0.0/12,fd00::/108" in words
    assert [word for word in words if "profiling" in word] == ["--profiling=true"]


def test_modes_of_authorization_replace_the_file() -> None:
    words = find_words(API_SERVER, "extraArgs: {authorization-mode: Webhook}")
    assert "--authorization-mode=Node,RBAC,Webhook" in words
    assert not [word for word in words if "authorization-config" in word]
    words = find_words(API_SERVER, "extraArgs: {authorization-webhook-config-file: /a}")
    assert "--authorization-mode=Node,RBAC" in words


def test_a_further_issuer_replaces_ours() -> None:
    assert merge_arguments(
        API_SERVER, {"service-account-issuer": ["a"]}, {"service-account-issuer": ["b"]}
    ) == {"service-account-issuer": ["b"]}


def test_arguments_of_a_proxy_have_no_file_beside_them() -> None:
    words = find_words(PROXY, "mode: ipvs, extraArgs: {nodeport-addresses: 10.0.0.0/8}")
    assert words[1:] == [
        "--cluster-cidr=10.244.0.0/16",
        "--conntrack-max-per-core=0",
        "--hostname-override=$(NODE_NAME)",
        "--kubeconfig=/etc/kubernetes/kubeconfig",
        "--nodeport-addresses=10.0.0.0/8",
        "--proxy-mode=ipvs",
    ]
    words = find_words(PROXY, "mode: ipvs", document=True)
    assert words[1:] == ["--config=/var/lib/kube-proxy/config.conf", "--hostname-override=$(NODE_NAME)"]


@pytest.mark.parametrize("document", [False, True], ids=["main", "document"])
def test_fields_of_the_kubelet_that_the_system_sets_are_refused(document: bool) -> None:
    key = "config" if document else "extraConfig"
    text = make_text(
        KUBELET, f"{key}: {{authentication: {{anonymous: {{enabled: true}}}}}}", document=document
    )
    (found,) = [str(one) for one in validate(load(text)).errors if "overridden" in str(one)]
    assert f"{key}.authentication" in found
    assert 'kubelet configuration field "authentication" can\'t be overridden' in found
    spec = make_kubelet_config(load(text), "")
    with pytest.raises(UserError, match="can't be overridden"):
        make_configuration(spec, is_container=True, is_control_plane=False)


def test_a_name_of_the_users_own_is_not_expected_of_the_certificate() -> None:
    words = find_words(KUBELET, "extraArgs: {hostname-override: other, node-ip: 10.0.0.9}")
    assert {"--hostname-override=other", "--node-ip=10.0.0.9"} <= set(words)
