"""The static pods of the control plane."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import trio

from talos.api.definitions.k8s_pb2 import StaticPodSpec
from talos.api.definitions.runtime_pb2 import DiagnosticSpec
from talos.config.static_pods import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from talos.etcd.access import EtcdAccess
from talos.kubed import pods
from talos.kubed.admin import AdminAccess, find_pause
from talos.kubed.arguments import make_account_arguments
from talos.kubed.rollout import (
    KEEP_ALIVE_INTERVAL,
    Changes,
    PodChange,
    RolloutLock,
    RolloutProgress,
    choose,
    find_progress,
    is_underway,
    make_status_id,
)
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.objects import to_struct
from talos.system.logging import Log

SECRETS_VERSION, CONFIG_VERSION = "talos.dev/secrets-version", "talos.dev/config-version"
FILES_VERSION = "talos.dev/config-file-version"
POLL_INTERVAL = 1.0
"""Seconds between the first looks whether the API server is ready, or the turn of another node is over."""
MAX_POLL_INTERVAL = 5.0
"""Seconds between two checks for the end of another node's turn."""
CHANGE_TIMEOUT = 120.0
"""Seconds that a change waits before that is a diagnostic."""
ETCD_TIMEOUT = 60.0
"""Seconds without etcd until the pods are withdrawn: they outlive that it starts again."""
DIAGNOSTIC = "static-pods-wait"
REMEDY = (
    "see staticpodstatus of that node and correct its config; its turn ends a minute after it is shut down"
)


class ControlPlanePodController(Controller):
    """The configs of the control plane, SecretStatus, ConfigStatus → StaticPod.

    The controller manager and the scheduler end when the API server does not answer yet, and the kubelet
    waits longer each time before it starts them again. So they come once it is ready for the first time.
    What runs is replaced on one node after another: see :mod:`talos.kubed.rollout`.
    """

    name = "k8s.ControlPlaneStaticPodController"
    inputs = (
        Input(*ids.API_SERVER_CONFIG),
        Input(*ids.CONTROLLER_MANAGER_CONFIG),
        Input(*ids.SCHEDULER_CONFIG),
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(*ids.SECRET_STATUS),
        Input(*ids.CONFIG_STATUS),
        Input(*ids.ETCD_SERVICE),
        Input(*ids.NODENAME),
        Input(kinds.STATIC_POD),
        Input(kinds.STATIC_POD_STATUS),
    )
    outputs = (Output(kinds.STATIC_POD, shared=True), Output(kinds.DIAGNOSTIC, shared=True))

    def __init__(self, etcd: EtcdAccess, log: Log) -> None:
        self._log = log
        self._rollout_lock = RolloutLock(etcd)
        self._was_ready = False
        self._has_server = trio.Event()
        self._access = AdminAccess()
        self._offered_at = 0.0
        self._waits_since: float | None = None
        self._etcd_until = -math.inf

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile at every change, when the API server is ready, and while nodes take turns."""
        self._offered_at = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_for_server, runtime)
            interval = math.inf
            while True:
                await runtime.wait_for_round(interval)
                interval = await self._reconcile(runtime)
                await self._note_server(runtime)
                runtime.reset_backoff()
                left = self._etcd_until - trio.current_time()
                interval = min(interval, left) if left > 0 else interval

    async def _note_server(self, runtime: ControllerRuntime) -> None:
        """Have the API server looked at while it is offered: a worker never has one."""
        is_offered = await runtime.get_or_none(kinds.STATIC_POD, API_SERVER) is not None
        if is_offered:
            self._has_server.set()
        elif self._has_server.is_set():
            self._has_server = trio.Event()

    async def _wait_for_server(self, runtime: ControllerRuntime) -> None:
        began = trio.current_time()
        while not await self._is_ready(runtime):  # only a request shows it
            if not self._has_server.is_set():
                await self._has_server.wait()
                began = trio.current_time()
            await trio.sleep(find_pause(began, POLL_INTERVAL))
        self._was_ready = True
        runtime.queue_reconcile()

    async def _is_ready(self, runtime: ControllerRuntime) -> bool:
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        if root is None or not self._has_server.is_set():
            return False
        return await self._access.connect(root.spec).is_ready()

    async def _reconcile(self, runtime: ControllerRuntime) -> float:
        """Offer what may be offered now; the seconds until the next check of what keeps the rest."""
        nodename = await runtime.get_or_none(*ids.NODENAME)
        if nodename is None:
            return math.inf
        node, reason = nodename.spec.nodename, ""
        wanted = await self._make_pods(runtime)
        async with runtime.track_outputs():
            changes = await self._find_changes(runtime, wanted, node)
            await self._offer(runtime, changes, has_lock=False)
            changes = await self._find_changes(runtime, wanted, node)
            pending = [name for name, one in changes.items() if one.is_pending]
            underway = is_underway(changes, seconds=trio.current_time() - self._offered_at)
            if pending or underway:
                reason = await self._rollout_lock.take(node)
                if not reason:
                    await self._offer(runtime, changes, has_lock=True)
            else:
                await self._rollout_lock.release(node)
            return await self._report(runtime, pending, reason) if pending or underway else math.inf

    async def _find_changes(
        self, runtime: ControllerRuntime, wanted: Mapping[str, Mapping[str, Any]], node: str
    ) -> Changes:
        changes = await _read_changes(runtime, wanted, node)
        server = changes.get(API_SERVER)
        if (
            server is not None
            and server.is_pending
            and not server.may_serve
            and await self._is_ready(runtime)
        ):
            # The kubelet shows that some seconds later, and nothing at first when it starts again.
            return {**changes, API_SERVER: replace(server, progress=RolloutProgress.READY)}
        return changes

    async def _offer(self, runtime: ControllerRuntime, changes: Changes, *, has_lock: bool) -> None:
        """Write the pods whose wanted version may be offered; the others stay as they are."""
        chosen = choose(changes, has_lock=has_lock)
        for name, one in changes.items():
            if name not in chosen:
                runtime.keep(kinds.STATIC_POD, name)
                continue
            await runtime.put(kinds.STATIC_POD, name, StaticPodSpec(pod=one.wanted))
            self._offered_at = trio.current_time()
            if one.offered is not None:
                self._log.info(f"{name} changes")

    async def _report(self, runtime: ControllerRuntime, pending: Sequence[str], reason: str) -> float:
        """Show what the pods wait for, if they do."""
        if not pending or not reason:
            self._waits_since = None
            return MAX_POLL_INTERVAL if reason else KEEP_ALIVE_INTERVAL
        now = trio.current_time()
        if self._waits_since is None:
            self._waits_since = now
        text = f"the change of {', '.join(pending)} waits: {reason}"
        self._log.once(text, key="rollout", level="info")
        if now - self._waits_since > CHANGE_TIMEOUT:
            details = [text, REMEDY] if self._rollout_lock.holder else [text]
            message = "a change of the control plane's pods waits for another node"
            await runtime.put(kinds.DIAGNOSTIC, DIAGNOSTIC, DiagnosticSpec(message=message, details=details))
        return min(find_pause(self._waits_since, POLL_INTERVAL), MAX_POLL_INTERVAL)

    async def _make_pods(self, runtime: ControllerRuntime) -> dict[str, dict[str, Any]]:
        """The pods of the config once the files that they read are there and etcd is, else none."""
        secrets = await runtime.get_or_none(*ids.SECRET_STATUS)
        configs = await runtime.get_or_none(*ids.CONFIG_STATUS)
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        etcd = await runtime.get_or_none(*ids.ETCD_SERVICE)
        made: dict[str, dict[str, Any]] = {}
        is_there = self._note_etcd(is_running=etcd is not None and etcd.spec.running)
        if secrets is None or configs is None or root is None or not is_there:
            return made
        versions = {SECRETS_VERSION: secrets.spec.version, FILES_VERSION: configs.spec.version}
        server = await runtime.get_or_none(*ids.API_SERVER_CONFIG)
        if server is not None:
            marks = {**versions, CONFIG_VERSION: str(server.metadata.version)}
            made[API_SERVER] = pods.make_api_server(server.spec, marks, make_account_arguments(root.spec))
        manager = await runtime.get_or_none(*ids.CONTROLLER_MANAGER_CONFIG)
        if (
            manager is not None
            and manager.spec.enabled
            and await self._may_follow(runtime, CONTROLLER_MANAGER)
        ):
            marks = {**versions, CONFIG_VERSION: str(manager.metadata.version)}
            made[CONTROLLER_MANAGER] = pods.make_controller_manager(manager.spec, marks)
        scheduler = await runtime.get_or_none(*ids.SCHEDULER_CONFIG)
        if scheduler is not None and scheduler.spec.enabled and await self._may_follow(runtime, SCHEDULER):
            marks = {**versions, CONFIG_VERSION: str(scheduler.metadata.version)}
            made[SCHEDULER] = pods.make_scheduler(scheduler.spec, marks)
        return made

    def _note_etcd(self, *, is_running: bool) -> bool:
        """Whether etcd runs, or has run until a moment ago."""
        if is_running:
            self._etcd_until = math.inf
        elif self._etcd_until == math.inf:
            self._etcd_until = trio.current_time() + ETCD_TIMEOUT
        return trio.current_time() < self._etcd_until

    async def _may_follow(self, runtime: ControllerRuntime, name: str) -> bool:
        """Whether there was an API server; a daemon that is started again takes away nothing that runs."""
        return self._was_ready or await runtime.get_or_none(kinds.STATIC_POD, name) is not None


async def _read_changes(
    runtime: ControllerRuntime, wanted: Mapping[str, Mapping[str, Any]], node: str
) -> dict[str, PodChange]:
    """How each pod is offered, and how far the kubelet is with it."""
    found: dict[str, PodChange] = {}
    for name, pod in wanted.items():
        resource = await runtime.get_or_none(kinds.STATIC_POD, name)
        offered = resource.spec.pod if resource is not None else None
        status = await runtime.get_or_none(kinds.STATIC_POD_STATUS, make_status_id(pod, node))
        found[name] = PodChange(to_struct(pod), offered, find_progress(offered, status))
    return found
