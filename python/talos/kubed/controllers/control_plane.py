"""The settings of the control plane's programs, as resources."""

import re
from collections.abc import Mapping, Sequence

from talos.api.definitions.k8s_pb2 import (
    AdmissionControlConfigSpec,
    AdmissionPluginSpec,
    APIServerConfigSpec,
    ArgValues,
    AuditPolicyConfigSpec,
    AuthenticationConfigSpec,
    AuthorizationAuthorizersSpec,
    AuthorizationConfigSpec,
    ControllerManagerConfigSpec,
    ExtraVolume,
    Resources,
    SchedulerConfigSpec,
)
from talos.config.active import read_config
from talos.config.documents.v1alpha1.control_plane import VolumeMountConfig
from talos.config.effective import api_server, kubernetes
from talos.config.effective import cluster as effective
from talos.config.model import Config
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import to_struct

ETCD_ENDPOINT = "https://127.0.0.1:2379"


async def read_control_plane_config(runtime: ControllerRuntime) -> Config | None:
    """The config in force on a control plane node with Kubernetes; ``ids.MACHINE_CONFIG`` is an input."""
    config = await read_config(runtime)
    if config is None or not config.machine_type.is_control_plane or not effective.cluster_endpoint(config):
        return None
    return config


class ControlPlaneConfigController(Reconciler):
    """MachineConfig → the resources from which static pods and their files are made."""

    name = "k8s.ControlPlaneController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (
        Output(kinds.API_SERVER_CONFIG, shared=True),
        Output(kinds.CONTROLLER_MANAGER_CONFIG, shared=True),
        Output(kinds.SCHEDULER_CONFIG, shared=True),
        Output(kinds.ADMISSION_CONTROL_CONFIG),
        Output(kinds.AUDIT_POLICY_CONFIG),
        Output(kinds.AUTHENTICATION_CONFIG),
        Output(kinds.AUTHORIZATION_CONFIG),
    )

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write all of them on a control plane node with Kubernetes, else none."""
        config = await read_control_plane_config(runtime)
        async with runtime.track_outputs():
            if config is None:
                return
            await runtime.put(*ids.API_SERVER_CONFIG, make_api_server(config))
            await runtime.put(*ids.CONTROLLER_MANAGER_CONFIG, make_controller_manager(config))
            await runtime.put(*ids.SCHEDULER_CONFIG, make_scheduler(config))
            plugins = [
                AdmissionPluginSpec(name=name, configuration=to_struct(given))
                for name, given in api_server.admission_plugins(config)
            ]
            await runtime.put(*ids.ADMISSION_CONTROL_CONFIG, AdmissionControlConfigSpec(config=plugins))
            policy = AuditPolicyConfigSpec(config=to_struct(api_server.audit_policy(config)))
            await runtime.put(*ids.AUDIT_POLICY_CONFIG, policy)
            if given := api_server.authentication(config):
                spec = AuthenticationConfigSpec(config=to_struct(given))
                await runtime.put(*ids.AUTHENTICATION_CONFIG, spec)
            await runtime.put(*ids.AUTHORIZATION_CONFIG, make_authorization(config))


def make_api_server(config: Config) -> APIServerConfigSpec:
    """kube-apiserver."""
    chosen = kubernetes.api_server(config)
    return APIServerConfigSpec(
        image=chosen.image,
        control_plane_endpoint=effective.cluster_endpoint(config) or "",
        etcd_servers=[ETCD_ENDPOINT],
        local_port=effective.api_server_port(config),
        service_cid_rs=effective.service_subnets(config),
        extra_volumes=make_volumes(chosen.volumes),
        environment_variables=chosen.environment,
        # The address of a node that Kubernetes does not have is no use to its clients.
        advertised_address="" if effective.skips_node_registration(config) else "$(POD_IP)",
        resources=make_resources(chosen.resources),
        extra_args=make_arguments(chosen.extra_args),
        startup_probes_enabled=api_server.has_startup_probes(config),
        use_authentication_config=bool(api_server.authentication(config)),
    )


def make_controller_manager(config: Config) -> ControllerManagerConfigSpec:
    """kube-controller-manager."""
    chosen = kubernetes.controller_manager(config)
    mask_v4, mask_v6 = kubernetes.mask_sizes(config)
    return ControllerManagerConfigSpec(
        enabled=chosen.enabled,
        image=chosen.image,
        pod_cid_rs=effective.pod_subnets(config),
        service_cid_rs=effective.service_subnets(config),
        extra_volumes=make_volumes(chosen.volumes),
        environment_variables=chosen.environment,
        resources=make_resources(chosen.resources),
        extra_args=make_arguments(chosen.extra_args),
        node_cidr_mask_size_i_pv4=mask_v4,
        node_cidr_mask_size_i_pv6=mask_v6,
    )


def make_scheduler(config: Config) -> SchedulerConfigSpec:
    """kube-scheduler."""
    chosen = kubernetes.scheduler(config)
    return SchedulerConfigSpec(
        enabled=chosen.enabled,
        image=chosen.image,
        extra_volumes=make_volumes(chosen.volumes),
        environment_variables=chosen.environment,
        resources=make_resources(chosen.resources),
        config=to_struct(chosen.config),
        extra_args=make_arguments(chosen.extra_args),
    )


def make_authorization(config: Config) -> AuthorizationConfigSpec:
    """The authorizers in order."""
    spec = AuthorizationConfigSpec(image=kubernetes.api_server(config).image)
    for kind, name, webhook in api_server.authorizers(config):
        authorizer = AuthorizationAuthorizersSpec(type=kind, name=name)
        if webhook:
            authorizer.webhook.CopyFrom(to_struct(webhook))
        spec.config.append(authorizer)
    return spec


def make_arguments(arguments: Mapping[str, Sequence[str]]) -> dict[str, ArgValues]:
    """Arguments as the State has them."""
    return {name: ArgValues(values=values) for name, values in arguments.items()}


def make_resources(given: Mapping[str, Mapping[str, str]]) -> Resources:
    """Requests and limits as the State has them."""
    return Resources(requests=given.get("requests", {}), limits=given.get("limits", {}))


def make_volumes(volumes: Sequence[VolumeMountConfig]) -> list[ExtraVolume]:
    """Further mounts, named after where they are seen, as upstream names them."""
    return [
        ExtraVolume(
            name=re.sub("[/_.]", "-", volume.mount_path or "").strip("-"),
            host_path=volume.host_path,
            mount_path=volume.mount_path,
            read_only=bool(volume.readonly),
        )
        for volume in volumes
    ]
