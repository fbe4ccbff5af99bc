"""The settings of the control plane's programs with the arguments that they are started with."""

from collections.abc import Mapping, Sequence

from talos.api.definitions.k8s_pb2 import (
    APIServerConfigSpec,
    ControllerManagerConfigSpec,
    SchedulerConfigSpec,
)
from talos.config.static_pods import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from talos.kubed.arguments import (
    make_account_arguments,
    make_api_server_arguments,
    make_command,
    make_controller_manager_arguments,
    make_scheduler_arguments,
)
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler


class ControlPlaneFinalController(Reconciler):
    """The configs of the control plane → the same with arguments, under ids that begin with ``final-``.

    Of a program that is off only that is there.
    """

    name = "k8s.ControlPlaneFinalController"
    inputs = (
        Input(*ids.API_SERVER_CONFIG),
        Input(*ids.CONTROLLER_MANAGER_CONFIG),
        Input(*ids.SCHEDULER_CONFIG),
        Input(*ids.KUBERNETES_ROOT_SECRET),
    )
    outputs = (
        Output(kinds.API_SERVER_CONFIG, shared=True),
        Output(kinds.CONTROLLER_MANAGER_CONFIG, shared=True),
        Output(kinds.SCHEDULER_CONFIG, shared=True),
    )

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write one of each that there is."""
        server = await runtime.get_or_none(*ids.API_SERVER_CONFIG)
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        manager = await runtime.get_or_none(*ids.CONTROLLER_MANAGER_CONFIG)
        scheduler = await runtime.get_or_none(*ids.SCHEDULER_CONFIG)
        async with runtime.track_outputs():
            if server is not None and root is not None:
                accounts = make_account_arguments(root.spec)
                await runtime.put(*ids.FINAL_API_SERVER_CONFIG, finish_api_server(server.spec, accounts))
            if manager is not None:
                await runtime.put(
                    *ids.FINAL_CONTROLLER_MANAGER_CONFIG, finish_controller_manager(manager.spec)
                )
            if scheduler is not None:
                await runtime.put(*ids.FINAL_SCHEDULER_CONFIG, finish_scheduler(scheduler.spec))


def finish_api_server(
    spec: APIServerConfigSpec, accounts: Mapping[str, Sequence[str]]
) -> APIServerConfigSpec:
    """kube-apiserver."""
    return APIServerConfigSpec(
        image=spec.image,
        local_port=spec.local_port,
        extra_volumes=spec.extra_volumes,
        environment_variables=spec.environment_variables,
        resources=spec.resources,
        startup_probes_enabled=spec.startup_probes_enabled,
        use_authentication_config=spec.use_authentication_config,
        args=make_command(API_SERVER, make_api_server_arguments(spec, accounts)),
    )


def finish_controller_manager(spec: ControllerManagerConfigSpec) -> ControllerManagerConfigSpec:
    """kube-controller-manager."""
    if not spec.enabled:
        return ControllerManagerConfigSpec()
    return ControllerManagerConfigSpec(
        enabled=True,
        image=spec.image,
        extra_volumes=spec.extra_volumes,
        environment_variables=spec.environment_variables,
        resources=spec.resources,
        args=make_command(CONTROLLER_MANAGER, make_controller_manager_arguments(spec)),
    )


def finish_scheduler(spec: SchedulerConfigSpec) -> SchedulerConfigSpec:
    """kube-scheduler."""
    if not spec.enabled:
        return SchedulerConfigSpec()
    return SchedulerConfigSpec(
        enabled=True,
        image=spec.image,
        extra_volumes=spec.extra_volumes,
        environment_variables=spec.environment_variables,
        resources=spec.resources,
        config=spec.config,
        args=make_command(SCHEDULER, make_scheduler_arguments(spec)),
    )
