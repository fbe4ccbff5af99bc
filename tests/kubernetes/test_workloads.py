"""What users run, on a control plane node and a worker: kinds of pods, and what is done for them."""

import json
import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

import pytest
from tests.harness.cluster import eventually
from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import (
    READY_PROBE,
    SERVE_NAME,
    SLEEP,
    make_container,
    make_deployment,
    make_head,
    make_pod,
    make_pod_spec,
    make_service,
)

NODE_PORT, HOST_PORT = 30081, 8081


def read_page(url: str) -> str:
    """What a web server answers; AssertionError when it does not."""
    try:
        with urlopen(url, timeout=5) as reply:
            return reply.read().decode().strip()
    except OSError as error:
        raise AssertionError(f"{url}: {error}") from None


@pytest.fixture(scope="module", autouse=True)
def greedy_pod(kubernetes: Kubernetes) -> None:
    """A pod that the kubelet evicts once it has looked at all volumes, which takes a minute."""
    pod = make_pod(
        "greedy",
        f"dd if=/dev/zero of=/data/file bs=1M count=8; {SLEEP}",
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    pod["spec"]["volumes"] = [{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}]
    kubernetes.apply(pod)


def test_a_pod_has_a_port_of_its_node_where_that_is_allowed(kubernetes: Kubernetes) -> None:
    worker = kubernetes.cluster.nodes[1]
    ports = [{"containerPort": 8080, "hostPort": HOST_PORT}]
    pod = make_pod("port", SERVE_NAME, node=worker.name, ports=ports)
    refused = kubernetes.kubectl("apply", "-f", "-", stdin=json.dumps(pod), check=False)
    assert 'violates PodSecurity "baseline:latest": hostPort' in refused.stderr
    pod["metadata"]["namespace"] = "privileged"
    label = {"pod-security.kubernetes.io/enforce": "privileged"}
    kubernetes.apply(make_head("Namespace", "privileged", labels=label))
    # A pod of a namespace whose account is not there yet is refused.
    kubernetes.wait_for("serviceaccount/default", "create", namespace="privileged")
    kubernetes.apply(pod)
    url = f"http://{worker.address}:{HOST_PORT}/"
    eventually("the pod answers at its node's address", partial(read_page, url), pause=0.2)
    assert read_page(url) == "port"
    kubernetes.delete("namespace/privileged")


def test_a_pod_makes_folders_of_its_node_and_installs_a_networks_plugin(kubernetes: Kubernetes) -> None:
    worker = kubernetes.cluster.nodes[1]
    label = {"pod-security.kubernetes.io/enforce": "privileged"}
    kubernetes.apply(make_head("Namespace", "installer", labels=label))
    kubernetes.wait_for("serviceaccount/default", "create", namespace="installer")
    folders = {"plugins": "/opt/cni/bin", "below": "/opt/more/of/it", "tmp": "/tmp/made", "data": "/var/made"}
    command = "ls /plugins; for name in plugins below tmp data; do echo it > /$name/plugin || exit 1; done"
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in folders]
    as_root = {"runAsUser": 0}
    pod = make_pod("installer", command, node=worker.name, volumeMounts=mounts, securityContext=as_root)
    pod["metadata"]["namespace"] = "installer"
    pod["spec"]["volumes"] = [
        {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
        for name, path in folders.items()
    ]
    kubernetes.apply(pod)
    kubernetes.wait_for("pod/installer", "jsonpath={.status.phase}=Succeeded", namespace="installer")
    listed = kubernetes.kubectl("logs", "--namespace", "installer", "installer").stdout.split()
    assert {"bridge", "flannel", "host-local", "loopback", "portmap"} <= {*listed}
    for path in folders.values():
        read = kubernetes.cluster.talosctl("--nodes", str(worker.address), "read", f"{path}/plugin")
        assert read.stdout == "it\n", path
    kubernetes.delete("namespace/installer")


def test_a_pod_gets_settings_secrets_and_what_it_is(kubernetes: Kubernetes) -> None:
    command = (
        "env; cat /secret/password; ls -ln /secret/..data/password; cat /info/labels; echo; id -u;"
        "cat /var/run/secrets/kubernetes.io/serviceaccount/namespace"
    )
    pod = make_pod(
        "settings",
        command,
        env=[
            {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "color"}}},
            {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        ],
        volumeMounts=[
            {"name": "secret", "mountPath": "/secret"},
            {"name": "info", "mountPath": "/info"},
        ],
        securityContext={"runAsUser": 4711, "readOnlyRootFilesystem": True},
    )
    label = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    pod["spec"]["volumes"] = [
        {"name": "secret", "secret": {"secretName": "settings", "defaultMode": 0o400}},
        {"name": "info", "downwardAPI": {"items": [label]}},
    ]
    pod["spec"]["securityContext"] = {"fsGroup": 4712}
    kubernetes.apply(
        {**make_head("ConfigMap", "settings"), "data": {"color": "green"}},
        {**make_head("Secret", "settings"), "stringData": {"password": "sesame\n"}},
        pod,
    )
    kubernetes.wait_for("pod/settings", "jsonpath={.status.phase}=Succeeded")
    output = kubernetes.kubectl("logs", "settings").stdout
    lines = output.splitlines()
    assert {"COLOR=green", "sesame", 'app="settings"', "4711"} <= {*lines}, output
    assert any(f"ADDRESS={node.address}" in lines for node in kubernetes.cluster.nodes), output
    assert lines[-1] == "default", output
    # The group of the volume may read, too: that is what fsGroup means.
    assert re.search(r"-r--r----- .* 4712 ", output), output
    kubernetes.delete("pod/settings", "configmap/settings", "secret/settings")


def test_probes_take_a_pod_out_of_its_service_and_restart_it(kubernetes: Kubernetes) -> None:
    # One failure counts: a command that a busy machine starts late is none.
    probe = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 60}
    container = make_container(
        SERVE_NAME,
        readinessProbe={**probe, "exec": {"command": ["test", "!", "-f", "/tmp/unready"]}},
        livenessProbe={**probe, "exec": {"command": ["test", "!", "-f", "/tmp/dead"]}},
        startupProbe={**probe, "failureThreshold": 60, "httpGet": {"path": "/", "port": 8080}},
    )
    deployment = make_deployment("probed", 1, container)
    kubernetes.apply(deployment, make_service("probed", [{"port": 80, "targetPort": 8080}]))
    kubernetes.roll_out("probed")
    (pod,) = kubernetes.get("pods", "--selector", "app=probed")
    name = pod["metadata"]["name"]

    def is_ready(expected: bool) -> None:
        slices = kubernetes.get("endpointslices", "--selector", "kubernetes.io/service-name=probed")
        found = [end["conditions"]["ready"] for one in slices for end in one["endpoints"] or ()]
        assert found == [expected], found

    eventually("the service has the pod", partial(is_ready, expected=True), pause=0.2)
    kubernetes.kubectl("exec", name, "--", "touch", "/tmp/unready")
    eventually("the service leaves the pod out", partial(is_ready, expected=False), pause=0.2)
    kubernetes.kubectl("exec", name, "--", "rm", "/tmp/unready")
    eventually("the service has the pod again", partial(is_ready, expected=True), pause=0.2)
    kubernetes.kubectl("exec", name, "--", "touch", "/tmp/dead")

    def is_restarted() -> None:
        (found,) = kubernetes.get("pod", name)
        (status,) = found["status"]["containerStatuses"]
        assert status["restartCount"] == 1, status
        assert status["ready"], status

    eventually("the pod is restarted", is_restarted, pause=0.2)
    kubernetes.delete("deployment/probed", "service/probed")


def test_a_rolling_update_loses_no_request(kubernetes: Kubernetes) -> None:
    def make(version: str) -> dict[str, Any]:
        container = make_container(
            "echo $VERSION > /tmp/index.html; exec httpd -f -p 8080 -h /tmp",
            env=[{"name": "VERSION", "value": version}],
            readinessProbe=READY_PROBE,
            # Nodes send requests here until they are notified that the pod ends, late on a busy machine.
            lifecycle={"preStop": {"sleep": {"seconds": 15}}},
        )
        deployment = make_deployment("rolled", 2, container, terminationGracePeriodSeconds=20)
        deployment["spec"]["strategy"] = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
        return deployment

    port = {"port": 80, "targetPort": 8080, "nodePort": NODE_PORT}
    kubernetes.apply(make("one"), make_service("rolled", [port], type="NodePort"))
    kubernetes.roll_out("rolled")
    url = f"http://{kubernetes.cluster.addresses[1]}:{NODE_PORT}/"
    eventually("the first version answers", partial(read_page, url), pause=0.2)
    answers, failures, stop = list[str](), list[str](), Event()

    def poll() -> None:
        while not stop.wait(0.02):
            try:
                answers.append(read_page(url))
            except AssertionError as error:
                failures.append(str(error))

    polling = Thread(target=poll)
    polling.start()
    try:
        kubernetes.apply(make("two"))
        kubernetes.roll_out("rolled")

        def is_new() -> None:
            assert answers[-20:] == ["two"] * 20, answers[-20:]

        eventually("only the second version answers", is_new, pause=0.2)
    finally:
        stop.set()
        polling.join()
    assert not failures, f"{len(failures)} of {len(answers)} requests: {failures[:3]}"
    kubernetes.kubectl("rollout", "undo", "deployment/rolled")
    kubernetes.roll_out("rolled")
    kubernetes.delete("deployment/rolled", "service/rolled")


def test_a_stateful_set_keeps_its_name_and_its_local_volume(kubernetes: Kubernetes) -> None:
    worker = kubernetes.cluster.nodes[1]
    user_volume = "apiVersion: v1alpha1, kind: UserVolumeConfig, name: db"
    on_worker = partial(kubernetes.cluster.talosctl, "-n", str(worker.address))
    on_worker("patch", "machineconfig", "--patch", f"{{{user_volume}, volumeType: directory}}")
    at_worker = {"key": "kubernetes.io/hostname", "operator": "In", "values": [worker.name]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/var/mnt/db"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [at_worker]}]}},
    }
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    container = make_container(
        f"echo started >> /data/log; {SERVE_NAME}", volumeMounts=[{"name": "data", "mountPath": "/data"}]
    )
    labels = {"app": "db"}
    stateful_set = {
        "serviceName": "db",
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": make_pod_spec(container, securityContext={"fsGroup": 65532}),
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    kubernetes.apply(
        {
            **make_head("StorageClass", "local", version="storage.k8s.io/v1"),
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {**make_head("PersistentVolume", "db"), "spec": volume},
        make_service("db", [{"port": 80, "targetPort": 8080}], clusterIP="None"),
        {**make_head("StatefulSet", "db", version="apps/v1"), "spec": stateful_set},
    )
    kubernetes.roll_out("db", kind="statefulset")
    kubernetes.delete("pod/db-0", wait=True)
    kubernetes.roll_out("db", kind="statefulset")

    def check() -> None:
        argv = ("wget", "-q", "-T", "5", "-O", "-", "http://db-0.db.default.svc.cluster.local:8080/")
        result = kubernetes.kubectl("exec", "db-0", "--", *argv, check=False)
        assert result.stdout.strip() == "db-0", result.stderr

    eventually("the pod has a name of its own", check, pause=0.5)
    assert kubernetes.kubectl("exec", "db-0", "--", "cat", "/data/log").stdout.split() == ["started"] * 2
    assert on_worker("read", "/var/mnt/db/log").stdout.split() == ["started"] * 2
    kubernetes.delete("statefulset/db", "service/db", "pvc/data-db-0", "pv/db", "storageclass/local")
    on_worker("patch", "machineconfig", "--patch", f"{{{user_volume}, $patch: delete}}")

    def is_no_volume() -> None:
        rows = kubernetes.cluster.rows("-n", str(worker.address), "get", "volumestatus")
        assert "u-db" not in {row["ID"] for row in rows}, rows

    eventually("the volume has gone with its document", is_no_volume)
    assert on_worker("read", "/var/mnt/db/log").stdout.split() == ["started"] * 2


@contextmanager
def forwarded(kubernetes: Kubernetes, pod: str, port: int) -> Generator[int]:
    """A port of this machine that leads to a pod's, for as long as the context is open."""
    argv = kubernetes.command("port-forward", f"pod/{pod}", f":{port}")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) ->", line)
            assert match, line
            yield int(match[1])
        finally:
            process.terminate()


def test_kubectl_reaches_into_a_pod(kubernetes: Kubernetes, tmp_path: Path) -> None:
    worker = kubernetes.cluster.nodes[1]
    command = f"echo begins; {SERVE_NAME}"
    kubernetes.apply(make_pod("reached", command, node=worker.name, readinessProbe=READY_PROBE))
    kubernetes.wait_for("pod/reached", "condition=Ready")

    def is_logged() -> None:
        assert kubernetes.kubectl("logs", "reached").stdout == "begins\n"

    eventually("its words are in its log", is_logged, pause=0.2)
    piped = kubernetes.kubectl("exec", "-i", "reached", "--", "cat", stdin="to and fro")
    assert piped.stdout == "to and fro"
    failed = kubernetes.kubectl("exec", "reached", "--", "sh", "-c", "exit 7", check=False)
    assert "exit code 7" in failed.stderr
    there, back = tmp_path / "there", tmp_path / "back"
    there.write_bytes(bytes(range(256)) * 1000)
    kubernetes.kubectl("cp", str(there), "reached:/tmp/copied")
    kubernetes.kubectl("cp", "reached:/tmp/copied", str(back))
    assert back.read_bytes() == there.read_bytes()
    with forwarded(kubernetes, "reached", 8080) as port:
        assert read_page(f"http://127.0.0.1:{port}/") == "reached"
    kubernetes.delete("pod/reached")


def test_a_job_runs_to_its_end(kubernetes: Kubernetes) -> None:
    pod = make_pod_spec(make_container("id"), restartPolicy="OnFailure")
    job = {"completions": 3, "parallelism": 3, "template": {"spec": pod}}
    kubernetes.apply({**make_head("Job", "counted", version="batch/v1"), "spec": job})
    kubernetes.wait_for("job/counted", "condition=Complete")
    kubernetes.delete("job/counted")


def test_the_image_of_the_kubelet_makes_and_checks_filesystems(kubernetes: Kubernetes) -> None:
    """In a pod of that image: a node that is a container has no device for the kubelet to do it with."""
    (node,) = kubernetes.get("node", kubernetes.cluster.nodes[1].name)
    commands = [
        ["mkfs.ext4", "-F", "/data/ext4", "16M"],
        ["fsck.ext4", "-f", "-n", "/data/ext4"],
        ["mkfs.xfs", "-d", "file=1,name=/data/xfs,size=300m"],
        ["xfs_repair", "-n", "-f", "/data/xfs"],
        ["mount.nfs", "-V"],
    ]
    image = f"ghcr.io/siderolabs/kubelet:{node['status']['nodeInfo']['kubeletVersion']}"
    mounts = [{"name": "data", "mountPath": "/data"}]
    containers = [
        {"name": f"command-{number}", "image": image, "command": command, "volumeMounts": mounts}
        for number, command in enumerate(commands)
    ]
    pod = make_pod("filesystems", "true")
    pod["spec"] |= {"initContainers": containers, "volumes": [{"name": "data", "emptyDir": {}}]}
    kubernetes.apply(pod)
    kubernetes.wait_for("pod/filesystems", "jsonpath={.status.phase}=Succeeded")
    kubernetes.delete("pod/filesystems")


def test_a_pod_that_fills_its_volume_is_evicted(kubernetes: Kubernetes) -> None:
    def check() -> None:
        (found,) = kubernetes.get("pod", "greedy")
        assert found["status"].get("reason") == "Evicted", found["status"]
        assert "exceeds the limit" in found["status"]["message"]

    eventually("the pod is evicted", check, seconds=120, pause=0.5)
    kubernetes.delete("pod/greedy")
