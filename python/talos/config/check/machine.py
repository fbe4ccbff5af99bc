"""Checks of the main document's ``machine``."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from talos.api.metadata import ROLES
from talos.config.arguments import KUBELET
from talos.config.check.arguments import check_arguments, check_kubelet_fields
from talos.config.check.containers import check_runtime_spec
from talos.config.check.devices import check_devices
from talos.config.check.forms import (
    check_annotations,
    check_labels,
    check_taints,
    is_subnet_or_address,
)
from talos.config.check.note import Note
from talos.config.check.pod import check_pod
from talos.config.check.subnets import check_subnet_list
from talos.config.check.udev import check_udev_rules
from talos.config.check.volumes import check_key_kind, check_slot
from talos.config.documents.block.volume import VolumeConfig
from talos.config.documents.v1alpha1.encryption import EncryptionConfig
from talos.config.documents.v1alpha1.features import FeaturesConfig
from talos.config.documents.v1alpha1.install import InstallConfig
from talos.config.documents.v1alpha1.kubelet import KubeletConfig
from talos.config.documents.v1alpha1.machine import MachineConfig
from talos.config.documents.v1alpha1.main import V1Alpha1Config
from talos.config.effective.machine import CUSTOMIZATION_FILE
from talos.config.model import OTHER_WORKERS, Config

MANIFESTS = "/etc/kubernetes/manifests"
"""Where the kubelet of other systems looks for pods."""
_MIN_KUBESPAN_MTU = 1280  # RFC 8200: what IPv6 needs


def check_machine(config: Config, main: V1Alpha1Config, *, installs: bool) -> Iterator[Note]:
    """Checks of ``machine``; ``installs``: on a machine with disks of its own."""
    machine = main.machine
    if machine is None:
        yield Note("is missing", main, "machine", hint="the machine's type, token and ca")
        return
    if main.persist is False:
        yield Note("must be true", main, "persist", hint="leave it out")
    at = Note.at(main, "machine")
    yield from _check_authorities(config, machine, at)
    yield from _check_install(machine.install, at.below("install"), installs=installs)
    yield from check_devices(config, machine, at.below("network.interfaces"))
    yield from _check_kubespan(machine, at.below("network.kubespan"))
    yield from _check_disks(machine, at.below("disks"))
    yield from _check_kubelet(machine.kubelet, at.below("kubelet"))
    yield from _check_profiles(machine, at)
    yield from check_runtime_spec(machine.base_runtime_spec_overrides, at.below("baseRuntimeSpecOverrides"))
    encryption = machine.system_disk_encryption
    if encryption is not None:
        for name, old in (("EPHEMERAL", encryption.ephemeral), ("STATE", encryption.state)):
            place = at.below(f"systemDiskEncryption.{name.lower()}")
            yield from _check_encryption(old, place)
            documents = [document for document in config.find_all(VolumeConfig) if document.name == name]
            if old is not None and any(document.encryption for document in documents):
                yield place.find(f"is also set by VolumeConfig {name}", hint="keep VolumeConfig")
    yield from check_labels(machine.node_labels, at.below("nodeLabels"))
    yield from check_annotations(machine.node_annotations, at.below("nodeAnnotations"))
    yield from check_taints(machine.node_taints, at.below("nodeTaints"))
    yield from _check_features(config, machine.features, at.below("features"))
    yield from _check_logging(machine, at.below("logging.destinations"))
    for index, pod in enumerate(machine.pods or ()):
        yield from check_pod(pod, at.below(f"pods[{index}]"))
    if machine.udev is not None:
        yield from check_udev_rules(machine.udev.rules, at.below("udev.rules"))


def find_deprecated(main: V1Alpha1Config) -> Iterator[Note]:
    """Settings that still work; with ``--strict`` they are mistakes."""
    machine = main.machine
    if machine is None:
        return
    at = Note.at(main, "machine")
    if machine.type in OTHER_WORKERS:
        yield at.below("type").find("is taken for worker", hint="write worker")
    if machine.files:
        yield at.below("files").find("is deprecated", hint="use EtcFileConfig or CRICustomizationConfig")
    yield from _find_unwritten(machine, at.below("files"))
    if machine.base_runtime_spec_overrides:
        yield at.below("baseRuntimeSpecOverrides").find("is deprecated", hint="use CRIBaseRuntimeSpecConfig")
    if machine.install and machine.install.extensions:
        yield at.below("install.extensions").find("is deprecated", hint="choose an image that has them")
    interfaces = (machine.network and machine.network.interfaces) or ()
    for index, device in enumerate(interfaces):
        if device.cidr:
            yield at.below(f"network.interfaces[{index}].cidr").find("is deprecated", hint="use addresses")


def _find_unwritten(machine: MachineConfig, at: Note) -> Iterator[Note]:
    for index, file in enumerate(machine.files or ()):
        place = at.below(f"[{index}].path")
        folder = str(PurePosixPath(file.path).parent)
        if folder == MANIFESTS:
            yield place.find("the kubelet does not read this folder", hint="use KubeStaticPodConfig")
        elif file.path == CUSTOMIZATION_FILE or file.path.startswith("/var/"):
            continue
        elif file.op == "create":
            message = f'create operation not allowed outside of /var: "{file.path}"'
            yield place.find(message, hint="choose a path below /var")


def _check_profiles(machine: MachineConfig, at: Note) -> Iterator[Note]:
    for index, profile in enumerate(machine.seccomp_profiles or ()):
        if profile.name in {"", ".", ".."} or "/" in profile.name:
            place = at.below(f"seccompProfiles[{index}].name")
            yield place.find(f'"{profile.name}" is no name of a file', hint="such as audit.json")


def _check_authorities(config: Config, machine: MachineConfig, at: Note) -> Iterator[Note]:
    crt, key = (machine.ca.crt, machine.ca.key) if machine.ca else (None, None)
    if config.machine_type.is_control_plane:
        if machine.ca is None:
            yield at.below("ca").find("is missing", hint="the authority of the nodes' API")
        elif not key:
            yield at.below("ca.key").find("is missing", hint="control plane nodes issue certificates")
        return
    if not crt and not machine.accepted_cas:
        yield at.below("ca").find("is missing", hint="the authority of the nodes' API, or acceptedCAs")
    if key:
        hint = "leave the key empty: a worker must not issue certificates"
        yield at.below("ca.key").find("has the authority's private key", hint=hint)


def _check_install(install: InstallConfig | None, at: Note, *, installs: bool) -> Iterator[Note]:
    if install is None:
        return
    if installs and not install.disk and not install.disk_selector:
        yield at.find("needs disk or diskSelector")
    if installs and install.extra_kernel_args and install.grub_use_uki_cmdline:
        hint = "leave grubUseUKICmdline out, or choose an image with these arguments"
        yield at.below("extraKernelArgs").find("does not go with grubUseUKICmdline", hint=hint)
    seen = set[str]()
    for index, image in enumerate(extension.image for extension in install.extensions or ()):
        if image in seen:
            yield at.below(f"extensions[{index}]").find(f'"{image}" is there already')
        seen.add(image)


def _check_kubespan(machine: MachineConfig, at: Note) -> Iterator[Note]:
    kubespan = machine.network.kubespan if machine.network else None
    if kubespan is None or not kubespan.enabled:
        return
    if kubespan.mtu is not None and kubespan.mtu < _MIN_KUBESPAN_MTU:
        yield at.below("mtu").find(f"{kubespan.mtu} is too small", hint=f"at least {_MIN_KUBESPAN_MTU}")
    filters = kubespan.filters
    if filters is None:
        return
    yield from check_subnet_list(filters.endpoints, at.below("filters.endpoints"))
    for index, text in enumerate(filters.exclude_advertised_networks or ()):
        if not is_subnet_or_address(text):
            yield at.below(f"filters.excludeAdvertisedNetworks[{index}]").find(f'"{text}" is no prefix')


def _check_disks(machine: MachineConfig, at: Note) -> Iterator[Note]:
    for index, disk in enumerate(machine.disks or ()):
        partitions = disk.partitions or ()
        for number, partition in enumerate(partitions[:-1]):
            if not partition.size or not partition.size.bytes:
                place = at.below(f"[{index}].partitions[{number}].size")
                yield place.find("is missing", hint="only the last may take the rest")


def _check_kubelet(kubelet: KubeletConfig | None, at: Note) -> Iterator[Note]:
    if kubelet is None:
        return
    if kubelet.node_ip:
        yield from check_subnet_list(kubelet.node_ip.valid_subnets, at.below("nodeIP.validSubnets"))
    yield from check_arguments(KUBELET, kubelet.extra_args, at.below("extraArgs"))
    yield from check_kubelet_fields(kubelet.extra_config, at.below("extraConfig"))


def _check_encryption(encryption: EncryptionConfig | None, at: Note) -> Iterator[Note]:
    if encryption is None:
        return
    if not encryption.keys:
        yield at.below("keys").find("is empty")
    slots: set[int] = set()
    for index, key in enumerate(encryption.keys):
        if key.slot in slots:
            yield at.below(f"keys[{index}].slot").find(f"{key.slot} is used already")
        slots.add(key.slot)
        if key.static is None and key.node_id is None and key.kms is None and key.tpm is None:
            yield at.below(f"keys[{index}]").find("names no kind of key", hint="static, nodeID, kms or tpm")
        yield from check_key_kind(key, at.below(f"keys[{index}]"))
        yield from check_slot(key.slot, at.below(f"keys[{index}].slot"))


def _check_features(config: Config, features: FeaturesConfig | None, at: Note) -> Iterator[Note]:
    if features is None:
        return
    host_dns = features.host_dns
    if host_dns and host_dns.forward_kube_dns_to_host and not host_dns.enabled:
        yield at.below("hostDNS.forwardKubeDNSToHost").find("needs hostDNS.enabled")
    access = features.kubernetes_talos_api_access
    if access is None or not access.enabled:
        return
    place = at.below("kubernetesTalosAPIAccess")
    if not config.machine_type.is_control_plane:
        yield place.find("is for control plane nodes")
    yield from check_roles(access.allowed_roles, place.below("allowedRoles"))


def check_roles(roles: tuple[str, ...] | None, at: Note) -> Iterator[Note]:
    """Roles of the API."""
    for index, role in enumerate(roles or ()):
        if role not in ROLES:
            yield at.below(f"[{index}]").find(f'"{role}" is no role', hint=f"one of: {', '.join(ROLES)}")


def _check_logging(machine: MachineConfig, at: Note) -> Iterator[Note]:
    for index, destination in enumerate((machine.logging and machine.logging.destinations) or ()):
        place = at.below(f"[{index}].endpoint")
        if not destination.endpoint:
            yield place.find("is missing", hint="such as udp://10.0.0.1:12345")
        elif destination.endpoint.scheme not in {"udp", "tcp", "tls"}:
            yield place.find("has the wrong scheme", hint="begins with udp://, tcp:// or tls://")
