"""KubeletServiceController: a kubelet with other arguments, or other secrets, is a new process."""

from collections.abc import Awaitable, Callable

from talos.machined.services.kubelet import KUBELET, VERSION, make_version
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler

type End = Callable[[str], Awaitable[None]]


class KubeletServiceController(Reconciler):
    """KubeletSpec, KubeletSecret, KubeletStatus → the service is started again when it began with others.

    Its files are written with every start, from what the State holds by then.
    """

    name = "k8s.KubeletServiceController"
    inputs = (Input(*ids.KUBELET_SPEC), Input(*ids.KUBELET_SECRET), Input(*ids.KUBELET_STATUS))

    def __init__(self, end: End) -> None:
        self._end = end

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Compare with what the kubelet was started with."""
        spec = await runtime.get_or_none(*ids.KUBELET_SPEC)
        secret = await runtime.get_or_none(*ids.KUBELET_SECRET)
        status = await runtime.get_or_none(*ids.KUBELET_STATUS)
        if spec is None or secret is None or status is None:
            return
        if status.metadata.annotations.get(VERSION) != make_version(spec.spec, secret.spec):
            await self._end(KUBELET)
