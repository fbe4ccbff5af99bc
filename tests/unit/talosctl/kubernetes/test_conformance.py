"""The run of conformance tests: the pod of a pass, what of it is waited for, what is never deleted."""

import asyncio
from typing import Any, cast

import pytest
from tests.unit.kubernetes.twin import Twin

from talos.system.errors import UserError
from talos.talosctl.kubernetes.conformance import (
    LABEL,
    MODES,
    NAMESPACE_PATH,
    RUNNER,
    Conformance,
    find_runner,
    find_state,
    make_pod,
)


def test_the_pod_has_the_variables_of_its_pass_and_shares_the_results() -> None:
    parallel, serial = MODES["fast"]
    pod = make_pod("registry.example/e2e:v1", parallel)
    runner, holder = pod["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in runner["env"]}
    assert (variables["E2E_FOCUS"], variables["E2E_SKIP"]) == (r"\[Conformance\]", r"\[Serial\]")
    assert variables["E2E_PARALLEL"] == "16"
    assert runner["volumeMounts"] == holder["volumeMounts"]
    assert runner["volumeMounts"][0]["mountPath"] == variables["RESULTS_DIR"]
    assert make_pod("x", serial)["spec"]["containers"][0]["env"][3] == {"name": "E2E_PARALLEL", "value": "1"}


def test_the_runners_state_is_found_among_containers() -> None:
    statuses: list[dict[str, Any]] = [
        {"name": "other", "state": {"running": {}}},
        {"name": RUNNER, "state": {"waiting": {}}},
    ]
    assert find_state({"status": {"containerStatuses": statuses}}) == {"waiting": {}}
    assert find_state({"status": {}}) == {}
    assert find_state({}) == {}


def test_the_public_runner_has_the_clusters_version() -> None:
    twin = Twin()
    twin.objects["/version"] = {"gitVersion": "v1.37.1+a b"}
    assert asyncio.run(find_runner(twin)) == "registry.k8s.io/conformance:v1.37.1%2Ba%20b"


@pytest.mark.parametrize("labels", [{}, {"app.kubernetes.io/managed-by": "another"}])
def test_a_namespace_of_another_user_stays(labels: dict[str, str]) -> None:
    twin = Twin()
    twin.objects[NAMESPACE_PATH] = {"metadata": {"name": "conformance", "labels": labels}}
    conformance = Conformance(cast("Any", None), twin, "image", lambda _: None)
    with pytest.raises(UserError, match="not of an earlier run"):
        asyncio.run(conformance.clean())
    assert NAMESPACE_PATH in twin.objects
    twin.objects[NAMESPACE_PATH]["metadata"]["labels"] = LABEL
    asyncio.run(conformance.clean())
    assert NAMESPACE_PATH not in twin.objects
