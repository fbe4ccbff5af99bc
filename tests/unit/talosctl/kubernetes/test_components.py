"""Images in configs of both forms."""

import pytest

from talos.config.read.loader import dump, load
from talos.talosctl.kubernetes.components import (
    API_SERVER,
    CONTROLLER_MANAGER,
    KUBELET,
    PROXY,
    SCHEDULER,
    Component,
    find_image,
    is_enabled,
    set_image,
)

ALL = (API_SERVER, CONTROLLER_MANAGER, SCHEDULER, PROXY, KUBELET)
EMPTY = "machine: {type: controlplane}\ncluster: {}\n"
OLD = """
machine: {type: controlplane, kubelet: &image {image: a:v1}}
cluster: {apiServer: *image, controllerManager: *image, scheduler: *image, proxy: *image}
"""
KINDS = ("KubeAPIServerConfig", "KubeControllerManagerConfig", "KubeSchedulerConfig", "KubeProxyConfig")
DOCUMENTS = EMPTY + "".join(
    f"---\napiVersion: v1alpha1\nkind: {kind}\nimage: a:v1\n" for kind in (*KINDS, "KubeletConfig")
)


@pytest.mark.parametrize("component", ALL, ids=lambda one: one.name)
@pytest.mark.parametrize(("text", "before"), [(OLD, "a:v1"), (DOCUMENTS, "a:v1"), (EMPTY, "")])
def test_one_image_changes_and_nothing_else(component: Component, text: str, before: str) -> None:
    config = load(text)
    assert find_image(config, component) == before
    changed = set_image(config, component, "b:v2")
    assert find_image(changed, component) == "b:v2"
    assert {find_image(changed, other) for other in ALL if other is not component} == {before}
    assert load(dump(changed)).documents == changed.documents


def test_what_is_disabled_is_left_alone() -> None:
    machine = "machine: {controlPlane: {scheduler: {disabled: true}}}\n"
    config = load(f"{machine}cluster: {{proxy: {{disabled: true}}}}\n")
    assert [one.name for one in ALL if not is_enabled(config, one)] == ["kube-scheduler", "kube-proxy"]
