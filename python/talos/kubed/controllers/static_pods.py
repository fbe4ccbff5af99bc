"""The control plane's static pods, and the server from which the kubelet gets them."""

import json
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus

import trio

from talos.api.definitions.k8s_pb2 import StaticPodServerStatusSpec, StaticPodSpec
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.config.active import read_config
from talos.config.documents.kubernetes.static_pod import KubeStaticPodConfig
from talos.config.static_pods import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from talos.kubed import pods
from talos.kubed.admin import AdminAccess, find_pause
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output, Reconciler
from talos.resource.objects import to_plain, to_struct

SECRETS_VERSION, CONFIG_VERSION = "talos.dev/secrets-version", "talos.dev/config-version"
FILES_VERSION = "talos.dev/config-file-version"
LOOK_EVERY = 1.0
"""Seconds between the first looks whether the API server is ready."""
REQUEST_SECONDS = 60.0
"""Until the next request on a connection."""
MAX_REQUEST = 8192
"""Bytes of a request's head."""


class ControlPlanePodController(Reconciler):
    """The configs of the control plane, SecretStatus, ConfigStatus → StaticPod.

    The controller manager and the scheduler end when the API server does not answer yet, and the kubelet
    waits longer each time before it starts them again. So they come once it is ready for the first time.
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
        Input(kinds.STATIC_POD),
    )
    outputs = (Output(kinds.STATIC_POD, shared=True),)

    def __init__(self) -> None:
        self._was_ready = False
        self._access = AdminAccess()

    async def run(self, runtime: ControllerRuntime) -> None:
        """Reconcile at every change, and when the API server is ready."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_for_server, runtime)
            await super().run(runtime)

    async def _wait_for_server(self, runtime: ControllerRuntime) -> None:
        # A daemon that is started again must not take away what runs already.
        if await runtime.get_or_none(kinds.STATIC_POD, CONTROLLER_MANAGER) is None:
            began = trio.current_time()
            while not await self._is_ready(runtime):  # only asking shows it
                if await runtime.get_or_none(kinds.STATIC_POD, API_SERVER) is None:
                    began = trio.current_time()
                await trio.sleep(find_pause(began, LOOK_EVERY))
        self._was_ready = True
        runtime.queue_reconcile()

    async def _is_ready(self, runtime: ControllerRuntime) -> bool:
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        if root is None or await runtime.get_or_none(kinds.STATIC_POD, API_SERVER) is None:
            return False
        return await self._access.connect(root.spec).is_ready()

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the pods once the files that they read are there and etcd runs."""
        secrets = await runtime.get_or_none(*ids.SECRET_STATUS)
        configs = await runtime.get_or_none(*ids.CONFIG_STATUS)
        root = await runtime.get_or_none(*ids.KUBERNETES_ROOT_SECRET)
        etcd = await runtime.get_or_none(*ids.ETCD_SERVICE)
        async with runtime.track_outputs():
            if secrets is None or configs is None or root is None or etcd is None or not etcd.spec.running:
                return
            versions = {SECRETS_VERSION: secrets.spec.version, FILES_VERSION: configs.spec.version}
            server = await runtime.get_or_none(*ids.API_SERVER_CONFIG)
            if server is not None:
                marks = {**versions, CONFIG_VERSION: str(server.metadata.version)}
                arguments = make_account_arguments(root.spec)
                await _put(runtime, API_SERVER, pods.make_api_server(server.spec, marks, arguments))
            manager = await runtime.get_or_none(*ids.CONTROLLER_MANAGER_CONFIG)
            if manager is not None and manager.spec.enabled and self._was_ready:
                marks = {**versions, CONFIG_VERSION: str(manager.metadata.version)}
                pod = pods.make_controller_manager(manager.spec, marks)
                await _put(runtime, CONTROLLER_MANAGER, pod)
            scheduler = await runtime.get_or_none(*ids.SCHEDULER_CONFIG)
            if scheduler is not None and scheduler.spec.enabled and self._was_ready:
                marks = {**versions, CONFIG_VERSION: str(scheduler.metadata.version)}
                await _put(runtime, SCHEDULER, pods.make_scheduler(scheduler.spec, marks))


async def _put(runtime: ControllerRuntime, name: str, pod: dict[str, object]) -> None:
    await runtime.put(kinds.STATIC_POD, name, StaticPodSpec(pod=to_struct(pod)))


def make_account_arguments(root: KubernetesRootSpec) -> dict[str, Sequence[str]]:
    """The API server's arguments about tokens of service accounts."""
    return {
        "api-audiences": [",".join(root.api_audiences)],
        "service-account-issuer": [root.issuer_url, *root.accepted_issuers],
    }


class UserPodController(Reconciler):
    """MachineConfig → StaticPod: the pods that the user wrote."""

    name = "k8s.StaticPodConfigController"
    inputs = (Input(*ids.MACHINE_CONFIG),)
    outputs = (Output(kinds.STATIC_POD, shared=True),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write one resource for each."""
        config = await read_config(runtime)
        async with runtime.track_outputs():
            for document in config.find_all(KubeStaticPodConfig) if config else ():
                if document.pod:
                    await _put(runtime, document.name, dict(document.pod))
            for index, pod in enumerate((config.machine.pods if config and config.machine else None) or ()):
                name = str(dict(pod).get("metadata", {}).get("name", index))
                await _put(runtime, f"default-{name}", dict(pod))


class StaticPodServer(Controller):
    """StaticPod → HTTP on the loopback interface → StaticPodServerStatus."""

    name = "k8s.StaticPodServerController"
    inputs = (Input(kinds.STATIC_POD),)
    outputs = (Output(kinds.STATIC_POD_SERVER_STATUS),)

    def __init__(self) -> None:
        self._reply = make_reply([])

    async def run(self, runtime: ControllerRuntime) -> None:
        """Serve the list of pods as it is at each request."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        _, port = listeners[0].socket.getsockname()[:2]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._serve, listeners)
            async for _ in runtime.events():
                found = sorted(await runtime.list(kinds.STATIC_POD), key=lambda pod: pod.metadata.id)
                self._reply = make_reply([to_plain(pod.spec.pod) for pod in found])
                status = StaticPodServerStatusSpec(url=f"http://127.0.0.1:{port}")
                await runtime.put(*ids.STATIC_POD_SERVER_STATUS, status)

    async def _serve(self, stream: trio.SocketStream) -> None:
        """Answer every request of a connection, which the kubelet keeps: it asks each second."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            head = b""
            while True:
                with trio.fail_after(REQUEST_SECONDS):
                    while b"\r\n\r\n" not in head:
                        part = await stream.receive_some(MAX_REQUEST)
                        head += part
                        if not part or len(head) > MAX_REQUEST:
                            return
                    await stream.send_all(self._reply)
                _, _, head = head.partition(b"\r\n\r\n")


def make_reply(found: list[dict[str, object]]) -> bytes:
    """The HTTP response with a PodList, whatever is asked for."""
    body = json.dumps({"apiVersion": "v1", "kind": "PodList", "items": found}).encode()
    head = (
        f"HTTP/1.1 {HTTPStatus.OK.value} {HTTPStatus.OK.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
