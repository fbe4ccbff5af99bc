"""The control plane's static pods, as dictionaries of the Kubernetes API (v1.Pod)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from talos.api.definitions.k8s_pb2 import (
    APIServerConfigSpec,
    ControllerManagerConfigSpec,
    ExtraVolume,
    Resources,
    SchedulerConfigSpec,
)
from talos.config.arguments import Arguments
from talos.config.static_pods import API_SERVER, CONFIGS, CONTROLLER_MANAGER, SCHEDULER, SECRETS, UIDS
from talos.kubed.arguments import (
    AUDIT_LOGS,
    make_api_server_arguments,
    make_command,
    make_controller_manager_arguments,
    make_scheduler_arguments,
)
from talos.system.sizes import parse_size

CA_ROOTS = "/etc/ssl/certs"
"""What an identity provider or a webhook outside of the cluster is trusted by."""
SCRATCH: Mapping[str, str] = {"tmp": "/tmp", "run": "/var/run/kubernetes"}
"""What a program may write to, by the name of its volume; nothing else of its root."""
GO_LIMIT, MEMORY_SHARE = "GOMEMLIMIT", 0.95
"""The part of a memory limit that Go's runtime keeps to before it is ended for more."""
MAX_LABEL = 63
"""Characters of a label's value."""
CONTROLLER_MANAGER_PORT, SCHEDULER_PORT = 10257, 10259
_REQUESTS: Mapping[str, Mapping[str, str]] = {
    API_SERVER: {"cpu": "200m", "memory": "512Mi"},
    CONTROLLER_MANAGER: {"cpu": "50m", "memory": "256Mi"},
    SCHEDULER: {"cpu": "10m", "memory": "64Mi"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the pods differ in."""

    name: str
    image: str
    arguments: Arguments
    port: int
    paths: Mapping[str, str]
    """For each probe, the path that it requests; empty: it only connects."""
    mounts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Folders of the node by the name of their volume, seen at the same path."""
    writable: frozenset[str] = frozenset()
    capabilities: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    resources: Resources = field(default_factory=Resources)
    volumes: Sequence[ExtraVolume] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Annotations that change, and so restart the pod, with the files that it reads."""


def make_api_server(
    spec: APIServerConfigSpec, versions: Mapping[str, str], accounts: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """kube-apiserver. ``accounts`` are the arguments about tokens."""
    secrets, configs = f"{SECRETS}/{API_SERVER}", f"{CONFIGS}/{API_SERVER}"
    return make_pod(
        Program(
            name=API_SERVER,
            image=spec.image,
            arguments=make_api_server_arguments(spec, accounts),
            port=spec.local_port,
            paths=make_server_paths(spec),
            mounts={"secrets": secrets, "config": configs, "audit": AUDIT_LOGS, "ca-roots": CA_ROOTS},
            writable=frozenset({"audit"}),
            # The port may be below 1024.
            capabilities=("NET_BIND_SERVICE",),
            environment=spec.environment_variables,
            resources=spec.resources,
            volumes=spec.extra_volumes,
            versions=versions,
        )
    )


def make_server_paths(spec: APIServerConfigSpec) -> dict[str, str]:
    """The paths of the API server's probes; without a file that allows them it answers 401 to the kubelet."""
    paths = {"livenessProbe": "/livez", "readinessProbe": "/readyz"}
    if spec.startup_probes_enabled:
        paths["startupProbe"] = "/livez"
    return paths if spec.use_authentication_config else dict.fromkeys(paths, "")


def make_controller_manager(spec: ControllerManagerConfigSpec, versions: Mapping[str, str]) -> dict[str, Any]:
    """kube-controller-manager."""
    secrets = f"{SECRETS}/{CONTROLLER_MANAGER}"
    return make_pod(
        Program(
            name=CONTROLLER_MANAGER,
            image=spec.image,
            arguments=make_controller_manager_arguments(spec),
            port=CONTROLLER_MANAGER_PORT,
            paths={"startupProbe": "/healthz", "livenessProbe": "/healthz"},
            mounts={"secrets": secrets},
            environment=spec.environment_variables,
            resources=spec.resources,
            volumes=spec.extra_volumes,
            versions=versions,
        )
    )


def make_scheduler(spec: SchedulerConfigSpec, versions: Mapping[str, str]) -> dict[str, Any]:
    """kube-scheduler."""
    secrets, configs = f"{SECRETS}/{SCHEDULER}", f"{CONFIGS}/{SCHEDULER}"
    return make_pod(
        Program(
            name=SCHEDULER,
            image=spec.image,
            arguments=make_scheduler_arguments(spec),
            port=SCHEDULER_PORT,
            paths={"startupProbe": "/healthz", "livenessProbe": "/healthz"},
            mounts={"secrets": secrets, "config": configs},
            environment=spec.environment_variables,
            resources=spec.resources,
            volumes=spec.extra_volumes,
            versions=versions,
        )
    )


def make_pod(program: Program) -> dict[str, Any]:
    """The pod of a program of the control plane: in the node's network, as a user of its own."""
    uid = UIDS[program.name]
    volumes, mounts = make_volumes(program)
    requests = dict(program.resources.requests) or dict(_REQUESTS[program.name])
    limits = {"limits": dict(program.resources.limits)} if program.resources.limits else {}
    container: dict[str, Any] = {
        "name": program.name,
        "image": program.image,
        "command": make_command(program.name, program.arguments),
        "env": make_environment(program.environment, program.resources.limits.get("memory", "")),
        "resources": {"requests": requests, **limits},
        "volumeMounts": mounts,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": list(program.capabilities)},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **{name: make_probe(name, path, program.port) for name, path in program.paths.items()},
    }
    labels = {"tier": "control-plane", "k8s-app": program.name, "component": program.name}
    labels |= {
        "app.kubernetes.io/name": program.name,
        "app.kubernetes.io/component": "control-plane",
        "app.kubernetes.io/managed-by": "Talos",
        **({"app.kubernetes.io/version": version} if (version := find_version(program.image)) else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": program.name,
            "namespace": "kube-system",
            "labels": labels,
            "annotations": dict(program.versions),
        },
        "spec": {
            "priority": 2000000000,
            "priorityClassName": "system-cluster-critical",
            "hostNetwork": True,
            "securityContext": {"runAsNonRoot": True, "runAsUser": uid, "runAsGroup": uid},
            "containers": [container],
            "volumes": volumes,
        },
    }


def make_volumes(program: Program) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes of a pod and where its container sees them; the user's take the places of ours."""
    taken = {volume.mount_path for volume in program.volumes}
    folders = {name: path for name, path in program.mounts.items() if path not in taken}
    scratch = {name: path for name, path in SCRATCH.items() if path not in taken}
    names = [
        f"{volume.name}-extra" if volume.name in folders or volume.name in scratch else volume.name
        for volume in program.volumes
    ]
    volumes: list[dict[str, Any]] = [
        # Without a type: the kubelet, a container, could not look whether it is there.
        {"name": name, "hostPath": {"path": path}}
        for name, path in folders.items()
    ]
    volumes += [{"name": name, "emptyDir": {"medium": "Memory"}} for name in scratch]
    volumes += [
        {"name": name, "hostPath": {"path": volume.host_path}}
        for name, volume in zip(names, program.volumes, strict=True)
    ]
    mounts: list[dict[str, Any]] = [
        {"name": name, "mountPath": path, "readOnly": name not in program.writable}
        for name, path in folders.items()
    ]
    mounts += [{"name": name, "mountPath": path} for name, path in scratch.items()]
    mounts += [
        {"name": name, "mountPath": volume.mount_path, "readOnly": volume.read_only}
        for name, volume in zip(names, program.volumes, strict=True)
    ]
    return volumes, mounts


def make_environment(variables: Mapping[str, str], memory_limit: str) -> list[dict[str, Any]]:
    """The user's variables as they are, the pod's address, which is the node's, and Go's memory limit."""
    own: list[dict[str, Any]] = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    if (limit := find_memory(memory_limit)) and GO_LIMIT not in variables:
        own.append({"name": GO_LIMIT, "value": str(limit)})
    # The kubelet would replace $(NAME).
    given = ({"name": name, "value": value.replace("$", "$$")} for name, value in sorted(variables.items()))
    return [*own, *given]


def find_memory(quantity: str) -> int:
    """Bytes that Go may use below a limit; 0 without one, or of a rare form, such as ``1e9``."""
    try:
        return int(parse_size(quantity) * MEMORY_SHARE) if quantity else 0
    except ValueError:
        return 0


def find_version(image: str) -> str:
    """The tag of an image as the value of a label; empty where there is none."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag if len(tag) <= MAX_LABEL else ""


def make_probe(name: str, path: str, port: int) -> dict[str, Any]:
    """A probe over TLS; the first start may take minutes on a slow machine."""
    handler: dict[str, Any] = (
        {"httpGet": {"host": "127.0.0.1", "path": path, "port": port, "scheme": "HTTPS"}}
        if path
        else {"tcpSocket": {"host": "127.0.0.1", "port": port}}
    )
    probe = {**handler, "timeoutSeconds": 15}
    match name:
        case "startupProbe":
            return {**probe, "periodSeconds": 1, "failureThreshold": 300}
        case "readinessProbe":
            return {**probe, "periodSeconds": 1, "failureThreshold": 3}
        case _:
            return {**probe, "periodSeconds": 10, "failureThreshold": 8}
