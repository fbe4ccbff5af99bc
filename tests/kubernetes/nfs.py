"""A share that two nodes mount from a server in a pod."""

from typing import Any

from tests.harness.kubernetes import Kubernetes
from tests.kubernetes.objects import make_head, make_pod
from tests.kubernetes.workloads.manifests import make_claim, make_namespace, run_with_claim

NAMESPACE, CLAIM, SERVER = "nfs", "share", "nfs-server"
IMAGE = "registry.example.org/nfs-server:1.0.0"
CONFIG = """\
NFS_Core_Param { Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; allow_set_io_flusher_fail = true; }
NFSv4 { Graceless = true; Only_Numeric_Owners = true; }
Export {
    Export_Id = 1; Path = /export; Pseudo = /export; Protocols = 4; Transports = TCP;
    Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
    FSAL { Name = VFS; }
}
"""
CAPABILITIES = ["DAC_READ_SEARCH"]
"""Files of NFS are opened by handles."""
OPTIONS = ["nfsvers=4.2", "hard"]


def has_client(kubernetes: Kubernetes) -> bool:
    """Whether the nodes' kernel mounts NFS: that of nodes that are containers is this machine's."""
    node = kubernetes.cluster.addresses[0]
    return "\tnfs4\n" in kubernetes.cluster.talosctl("-n", node, "read", "/proc/filesystems").stdout


def make_server() -> dict[str, Any]:
    """NFS-Ganesha, which serves a folder of its pod."""
    mounts = [{"name": "export", "mountPath": "/export"}, {"name": "config", "mountPath": "/etc/ganesha"}]
    container = {
        "name": "main",
        "image": IMAGE,
        "securityContext": {"capabilities": {"add": CAPABILITIES}},
        "readinessProbe": {"tcpSocket": {"port": 2049}, "periodSeconds": 1},
        "volumeMounts": mounts,
    }
    folder: dict[str, object] = {}  # on the node's disk
    volumes = [{"name": "export", "emptyDir": folder}, {"name": "config", "configMap": {"name": SERVER}}]
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1}
    return {**make_head("Pod", SERVER, namespace=NAMESPACE), "spec": spec}


def start_server(kubernetes: Kubernetes) -> str:
    """Start the server and return its address."""
    kubernetes.apply(make_namespace(NAMESPACE))
    kubernetes.wait_for("serviceaccount/default", "create", namespace=NAMESPACE)
    config = {**make_head("ConfigMap", SERVER, namespace=NAMESPACE), "data": {"ganesha.conf": CONFIG}}
    kubernetes.apply(config, make_server())
    kubernetes.wait_for(f"pod/{SERVER}", "condition=Ready", namespace=NAMESPACE)
    (pod,) = kubernetes.get("pod", SERVER, "-n", NAMESPACE)
    return pod["status"]["podIP"]


def run_on(kubernetes: Kubernetes, node: str, name: str, command: str) -> str:
    """What a command writes, in a pod of a node that has the share at ``/data``."""
    pod = make_pod(name, command, node=node, securityContext={"runAsUser": 0})
    return run_with_claim(kubernetes, pod, CLAIM, node)


def check_nfs(kubernetes: Kubernetes) -> None:
    """Assert that one node reads what another one has written, both by version 4.2."""
    first, second = (node.name for node in kubernetes.cluster.nodes[:2])
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "mountOptions": OPTIONS,
        "nfs": {"server": start_server(kubernetes), "path": "/export"},
    }
    kubernetes.apply(
        {**make_head("PersistentVolume", CLAIM), "spec": spec},
        make_claim(CLAIM, "", accessModes=["ReadWriteMany"], volumeName=CLAIM),
    )
    mounts = run_on(kubernetes, second, "nfs-writes", "echo kept > /data/file && grep /data /proc/mounts")
    assert " nfs4 rw," in mounts, mounts
    assert "vers=4.2," in mounts, mounts
    assert run_on(kubernetes, first, "nfs-reads", "cat /data/file") == "kept\n"
    kubernetes.delete(f"pvc/{CLAIM}", wait=True)
    kubernetes.delete(f"pv/{CLAIM}", f"namespace/{NAMESPACE}", wait=True)
