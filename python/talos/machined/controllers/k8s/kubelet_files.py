"""Following the files that the kubelet writes."""

from pathlib import Path

import trio

from talos.machined.services.kubelet import KUBELET
from talos.resource import kinds
from talos.resource.controller.controller import Controller, ControllerRuntime
from talos.system.inotify import DirectoryWatch


class KubeletFilesController(Controller):
    """Follows a folder of the kubelet's from when it runs; its service is an input."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_watching = False

    async def follow(self, runtime: ControllerRuntime) -> None:
        """Read the folder, at a change of it and of the inputs."""
        raise NotImplementedError

    async def run(self, runtime: ControllerRuntime) -> None:
        """Work from when the kubelet runs, whose files are on a disk."""
        self._is_watching = False
        async with trio.open_nursery() as nursery:
            async for _ in runtime.events():
                kubelet = await runtime.get_or_none(kinds.SERVICE, KUBELET)
                if kubelet is not None and kubelet.spec.running and not self._is_watching:
                    await nursery.start(self._watch, runtime)
                if self._is_watching:
                    await self.follow(runtime)
                runtime.reset_backoff()

    async def _watch(
        self, runtime: ControllerRuntime, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with DirectoryWatch(self._folder) as changes:
            self._is_watching = True
            task_status.started()
            while True:
                await changes.wait()
                runtime.queue_reconcile()
