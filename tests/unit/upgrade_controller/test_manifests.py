"""What Kubernetes is given to run the controller."""

from typing import Any

import yaml

from talos.upgrade_controller.manifests import METRICS_PORT, PAGE, PAGE_PORT, PROGRAM, format_manifests

OBJECTS = list(yaml.safe_load_all(format_manifests("registry.example.org/upgrade-controller:v1")))


def find(kind: str, group: str) -> dict[str, dict[str, Any]]:
    """The objects of a kind by their names."""
    return {
        one["metadata"]["name"]: one
        for one in OBJECTS
        if one["kind"] == kind and one["apiVersion"].startswith(group)
    }


def test_the_page_has_neither_the_role_that_upgrades_nor_a_token_of_kubernetes() -> None:
    pod = find("Deployment", "apps/")[PROGRAM]["spec"]["template"]["spec"]
    mounts = {
        container["name"]: [mount["name"] for mount in container["volumeMounts"]]
        for container in pod["containers"]
    }
    assert mounts == {PROGRAM: ["talos", "token"], "page": ["page"]}
    assert pod["automountServiceAccountToken"] is False
    secrets = {
        volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume
    }
    roles = {name: one["spec"]["roles"] for name, one in find("ServiceAccount", "talos.dev/").items()}
    assert {name: roles[secret] for name, secret in secrets.items()} == {
        "talos": ["os:upgrade"],
        "page": ["os:reader"],
    }
    assert [volume["secret"] for volume in pod["volumes"] if volume["name"] == "page"] == [
        {"secretName": PAGE, "optional": True}
    ]


def test_containers_have_no_privileges_and_the_service_leads_to_the_page() -> None:
    deployment = find("Deployment", "apps/")[PROGRAM]["spec"]
    for container in deployment["template"]["spec"]["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
    service = find("Service", "v1")[PROGRAM]["spec"]
    assert service["selector"] == deployment["selector"]["matchLabels"]
    assert "type" not in service
    containers = {one["name"]: one for one in deployment["template"]["spec"]["containers"]}
    for container, name, number in ((PROGRAM, "metrics", METRICS_PORT), ("page", "page", PAGE_PORT)):
        assert containers[container]["ports"] == [{"name": name, "containerPort": number}]
        assert {"name": name, "port": number, "targetPort": name} in service["ports"]


def test_the_account_has_its_namespace_alone_and_writes_nothing_but_status_and_events() -> None:
    rules = find("Role", "rbac")[PROGRAM]["rules"]
    writes = {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in {"get", "list", "watch"}
    }
    assert writes == {("upgradepolicies/status", "patch"), ("events", "create")}
    assert not find("ClusterRole", "rbac")
