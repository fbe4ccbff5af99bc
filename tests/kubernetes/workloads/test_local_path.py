"""local-path-provisioner by its own manifest, on a user volume."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.harness.cluster import eventually
from tests.harness.kubernetes import ROLLOUT_TIMEOUT, Kubernetes
from tests.kubernetes.objects import IMAGE, make_pod
from tests.kubernetes.workloads.manifests import PRIVILEGED, make_claim, read_manifest, with_claim

pytestmark = pytest.mark.soak

PATH = "/var/mnt/local"
USER_VOLUME = "apiVersion: v1alpha1, kind: UserVolumeConfig, name: local"


def install(kubernetes: Kubernetes) -> None:
    """Apply its manifest with the path, in a namespace where pods may mount folders of the node."""
    objects = {found["kind"]: found for found in read_manifest("local-path")}
    config: dict[str, Any] = objects["ConfigMap"]["data"]
    config["config.json"] = json.dumps(
        {"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [PATH]}]}
    )
    helper = yaml.safe_load(config["helperPod.yaml"])
    # The image that busybox is here has a user who may not write there.
    (container,) = helper["spec"]["containers"]
    container |= {"image": IMAGE, "securityContext": {"runAsUser": 0}}
    config["helperPod.yaml"] = json.dumps(helper)
    objects["Namespace"]["metadata"]["labels"] = PRIVILEGED
    kubernetes.apply(*objects.values())


def test_a_claim_gets_a_folder_of_a_user_volume(workloads: Kubernetes) -> None:
    worker = workloads.cluster.nodes[1]
    on_worker = partial(workloads.cluster.talosctl, "-n", str(worker.address))
    on_worker("patch", "machineconfig", "--patch", f"{{{USER_VOLUME}, volumeType: directory}}")
    install(workloads)
    claim = make_claim("notes", "local-path")
    workloads.apply(claim, with_claim(make_pod("writes", "echo kept > /data/file"), "notes", worker.name))
    workloads.wait_for("pod/writes", "jsonpath={.status.phase}=Succeeded")
    (volume,) = workloads.get("pv", workloads.get("pvc", "notes")[0]["spec"]["volumeName"])
    folder = volume["spec"]["hostPath"]["path"]
    assert folder.startswith(f"{PATH}/pvc-"), volume["spec"]
    assert on_worker("read", f"{folder}/file").stdout == "kept\n"
    workloads.apply(with_claim(make_pod("reads", "cat /data/file"), "notes", worker.name))
    workloads.wait_for("pod/reads", "jsonpath={.status.phase}=Succeeded")
    assert workloads.kubectl("logs", "reads").stdout == "kept\n"
    workloads.delete("pod/writes", "pod/reads", "pvc/notes")

    def is_removed() -> None:
        assert Path(folder).name not in on_worker("list", PATH).stdout

    eventually("the folder has gone with its claim", is_removed, seconds=ROLLOUT_TIMEOUT)
