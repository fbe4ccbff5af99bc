"""KubeletConfig and KubeletSpec: the kubelet's arguments and its configuration file.

PID 1 makes both, since it starts what is in them as root: image, mounts and arguments are those of the
config. Of what daemons write there are the node's name and addresses, and on control plane nodes, whose kubed
has the keys of Kubernetes, where their static pods are. A worker's kubelet fetches none.

https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from google.protobuf.struct_pb2 import Struct

from talos.api import machine_types
from talos.api.definitions import proto_pb2
from talos.api.definitions.k8s_pb2 import ArgValues, KubeletConfigSpec, KubeletSpecSpec
from talos.api.definitions.proto_pb2 import Mount
from talos.config.active import read_config
from talos.config.arguments import (
    IMAGE_SERVICE,
    IMAGE_SERVICE_ARGUMENT,
    KUBELET,
    find_fixed,
    format_arguments,
    merge_arguments,
)
from talos.config.documents.v1alpha1.kubelet import LinuxIDMapping
from talos.config.effective import cluster as effective
from talos.config.effective import kubernetes
from talos.config.effective import machine as effective_machine
from talos.config.model import Config
from talos.config.static_pods import MANIFESTS
from talos.images.rules import make_rules
from talos.process.daemons import KUBELET_IMAGES
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import merge, to_plain, to_struct
from talos.system.errors import UserError

CONFIG, KUBECONFIG = "/etc/kubernetes/kubelet.yaml", "/etc/kubernetes/kubeconfig-kubelet"
BOOTSTRAP_KUBECONFIG = "/etc/kubernetes/bootstrap-kubeconfig"
CLIENT_CA = "/etc/kubernetes/pki/ca.crt"
QUOTA_GATE = "LocalStorageCapacityIsolationFSQuotaMonitoring"
CONTAINERD = "unix:///run/containerd/containerd.sock"
HOSTNAME = "hostname-override"
CERTIFICATES = "/var/lib/kubelet/pki"


class KubeletConfigController(Reconciler):
    """MachineConfig, StaticPodServerStatus → KubeletConfig; none without Kubernetes."""

    name = "k8s.KubeletConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(*ids.STATIC_POD_SERVER_STATUS))
    outputs = (Output(kinds.KUBELET_CONFIG),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource, on control plane nodes once static pods have a server."""
        config = await read_config(runtime)
        server = await runtime.get_or_none(*ids.STATIC_POD_SERVER_STATUS)
        async with runtime.track_outputs():
            if config is None or not effective.cluster_endpoint(config):
                return
            if not config.machine_type.is_control_plane:
                await runtime.put(*ids.KUBELET_CONFIG, make_kubelet_config(config, ""))
            elif server is not None:
                await runtime.put(*ids.KUBELET_CONFIG, make_kubelet_config(config, server.spec.url))


def make_kubelet_config(config: Config, static_pods: str) -> KubeletConfigSpec:
    """The kubelet's settings from the config."""
    chosen = kubernetes.kubelet(config)
    extra_args, extra_config = dict(chosen.extra_args), dict(chosen.extra_config)
    if make_rules(config):
        # It pulls by the rules, whatever else the config has for it.
        extra_args.pop(IMAGE_SERVICE_ARGUMENT, None)
        extra_config[IMAGE_SERVICE] = f"unix://{KUBELET_IMAGES}"
    spec = KubeletConfigSpec(
        image=chosen.image,
        cluster_dns=chosen.cluster_dns or kubernetes.find_dns(effective.service_subnets(config)),
        cluster_domain=effective.dns_domain(config),
        extra_args={name: ArgValues(values=values) for name, values in extra_args.items()},
        default_runtime_seccomp_enabled=chosen.default_seccomp,
        skip_node_registration=effective.skips_node_registration(config),
        static_pod_list_url=static_pods,
        disable_manifests_directory=True,
        register_with_taints=effective.node_taints(config),
        cloud_provider_external=kubernetes.has_cloud_provider(config),
        enable_fs_quota_monitoring=effective_machine.has_disk_quota(config),
    )
    if extra_config:
        spec.extra_config.CopyFrom(to_struct(extra_config))
    if providers := kubernetes.credential_providers(config):
        spec.credential_provider_config.CopyFrom(to_struct(providers))
    for mount in chosen.extra_mounts:
        spec.extra_mounts.append(
            Mount(
                destination=mount.destination,
                type=mount.type or "",
                source=mount.source or "",
                options=mount.options or (),
                uid_mappings=_make_mappings(mount.uid_mappings or ()),
                gid_mappings=_make_mappings(mount.gid_mappings or ()),
            )
        )
    return spec


def _make_mappings(mappings: Sequence[LinuxIDMapping]) -> list[proto_pb2.LinuxIDMapping]:
    return [
        proto_pb2.LinuxIDMapping(container_id=one.container_id, host_id=one.host_id, size=one.size)
        for one in mappings
    ]


class KubeletSpecController(Reconciler):
    """KubeletConfig, Nodename, NodeIP → KubeletSpec: what the kubelet is started with."""

    name = "k8s.KubeletSpecController"
    inputs = (
        Input(*ids.KUBELET_CONFIG),
        Input(*ids.NODENAME),
        Input(*ids.NODE_IP),
        Input(*ids.MACHINE_TYPE),
        Input(*ids.PLATFORM_METADATA),
    )
    outputs = (Output(kinds.KUBELET_SPEC),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource once the node has a name and an address."""
        config = await runtime.get_or_none(*ids.KUBELET_CONFIG)
        if config is None:
            await runtime.remove(*ids.KUBELET_SPEC)
            return
        nodename = await runtime.get_or_none(*ids.NODENAME)
        node_ip = await runtime.get_or_none(*ids.NODE_IP)
        platform = await runtime.get_or_none(*ids.PLATFORM_METADATA)
        if nodename is None or node_ip is None or platform is None:
            return
        name, spec = nodename.spec.nodename, config.spec
        addresses = [str(ip_address(address.ip[:16])) for address in node_ip.spec.addresses]
        is_container = platform.spec.platform == "container"
        machine = await runtime.get_or_none(*ids.MACHINE_TYPE)
        is_control_plane = machine is not None and machine_types.is_control_plane(machine.spec.machine_type)
        made = KubeletSpecSpec(
            image=spec.image,
            args=make_arguments(spec, name, addresses),
            extra_mounts=spec.extra_mounts,
            # A name of the user's own is that of the certificate, too.
            expected_nodename="" if HOSTNAME in spec.extra_args else name,
            config=make_configuration(spec, is_container=is_container, is_control_plane=is_control_plane),
        )
        if spec.HasField("credential_provider_config"):
            made.credential_provider_config.CopyFrom(spec.credential_provider_config)
        await runtime.put(*ids.KUBELET_SPEC, made)


def make_arguments(spec: KubeletConfigSpec, nodename: str, addresses: Sequence[str]) -> list[str]:
    """The command line, sorted.

    UserError: an argument that is the system's alone.
    """
    arguments: dict[str, Sequence[str]] = {
        "bootstrap-kubeconfig": [BOOTSTRAP_KUBECONFIG],
        "kubeconfig": [KUBECONFIG],
        "config": [CONFIG],
        "cert-dir": [CERTIFICATES],
        HOSTNAME: [nodename],
        "node-ip": [",".join(addresses)],
    }
    if spec.cloud_provider_external:
        # The node has the taint node.cloudprovider.kubernetes.io/uninitialized until its controller saw it.
        arguments["cloud-provider"] = ["external"]
    if spec.skip_node_registration:
        del arguments["kubeconfig"], arguments["bootstrap-kubeconfig"]
    extra = {name: list(found.values) for name, found in spec.extra_args.items()}
    return format_arguments(merge_arguments(KUBELET, arguments, extra))


def make_configuration(spec: KubeletConfigSpec, *, is_container: bool, is_control_plane: bool) -> Struct:
    """The KubeletConfiguration; the user's fields go before ours.

    UserError: a field that is the system's alone.
    """
    given = to_plain(spec.extra_config)
    for name in find_fixed(given):
        message = f'kubelet configuration field "{name}" can\'t be overridden'
        raise UserError(message, where=KUBELET, hint="remove it from the kubelet's config")
    # Without a kubeconfig no API server decides who may call.
    has_server = not spec.skip_node_registration
    ours: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",  # noqa: S104 - the API server connects to it
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": has_server},
            "x509": {"clientCAFile": CLIENT_CA},
        },
        "authorization": {"mode": "Webhook" if has_server else "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/",
        "clusterDNS": list(spec.cluster_dns),
        "clusterDomain": spec.cluster_domain,
        "containerRuntimeEndpoint": CONTAINERD,
        "failCgroupV1": False,
        "failSwapOn": False,
        # The control plane's rollout waits for it; a worker has no pods there.
        "httpCheckFrequency": "1s" if is_control_plane else "5s",
        "logging": {"format": "json"},
        "oomScoreAdj": -450,
        "port": 10250,
        "registerWithTaints": make_taints(spec.register_with_taints),
        "resolvConf": "/system/resolved/resolv.conf",
        "rotateCertificates": True,
        "seccompDefault": spec.default_runtime_seccomp_enabled,
        "serializeImagePulls": False,
        "shutdownGracePeriod": "30s",
        "shutdownGracePeriodCriticalPods": "10s",
        "staticPodPath": MANIFESTS,
        "streamingConnectionIdleTimeout": "5m",
        "systemReserved": {
            "cpu": "50m",
            "memory": "512Mi" if is_control_plane else "384Mi",
            "pid": "100",
            "ephemeral-storage": "256Mi",
        },
        "tlsMinVersion": "VersionTLS13",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
    }
    if spec.enable_fs_quota_monitoring:
        # It measures an emptyDir of a pod with a user namespace by the quota of EPHEMERAL.
        ours["featureGates"] = {QUOTA_GATE: True}
    if given.get("systemReserved"):
        del ours["systemReserved"]  # the user's is the whole of it, as upstream
    if spec.static_pod_list_url:
        ours["staticPodURL"] = spec.static_pod_list_url
    if is_container:
        ours |= {
            "oomScoreAdj": 0,
            "maxOpenFiles": 20000,
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "5%",
                "imagefs.available": "5%",
            },
        }
    else:  # in a container the kernel's parameters are the host's
        ours |= {
            "protectKernelDefaults": True,
            "systemCgroups": "/system",
            "kubeletCgroups": "/podruntime/kubelet",
        }
    return to_struct({**merge(ours, given), "containerRuntimeEndpoint": CONTAINERD})


def make_taints(taints: Mapping[str, str]) -> list[dict[str, str]]:
    """Taints of the config as the kubelet has them: ``value:effect`` or ``effect``."""
    found: list[dict[str, str]] = []
    for key, text in sorted(taints.items()):
        value, _, effect = text.rpartition(":")
        found.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return found
