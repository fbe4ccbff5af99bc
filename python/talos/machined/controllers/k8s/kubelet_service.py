"""KubeletServiceController: a kubelet with other arguments, or other secrets, is a new process."""

from collections.abc import Awaitable, Callable

from talos.machined.services.kubelet import KUBELET
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime, Input, Reconciler

type End = Callable[[str], Awaitable[None]]


class KubeletServiceController(Reconciler):
    """KubeletSpec, KubeletSecret → the service is started again when they change.

    Its files are written with every start, from what the State holds by then.
    """

    name = "k8s.KubeletServiceController"
    inputs = (Input(*ids.KUBELET_SPEC), Input(*ids.KUBELET_SECRET))

    def __init__(self, end: End) -> None:
        self._end = end
        self._last: tuple[bytes, bytes] | None = None

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Compare the contents: a resource that is written again is none that has changed."""
        spec = await runtime.get_or_none(*ids.KUBELET_SPEC)
        secret = await runtime.get_or_none(*ids.KUBELET_SECRET)
        if spec is None or secret is None:
            return
        now = (
            spec.spec.SerializeToString(deterministic=True),
            secret.spec.SerializeToString(deterministic=True),
        )
        if self._last is not None and now != self._last:
            await self._end(KUBELET)
        self._last = now
