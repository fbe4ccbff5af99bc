"""What PID 1 needs only while its first daemons are starting already: the API, controllers, config.

Loaded in a thread: the State answers networkd meanwhile.
"""

from functools import partial

import trio

from talos.disks.refresh import refresh_discovery
from talos.disks.volumes.blocks import KernelBlocks
from talos.disks.volumes.requests import begin_lifecycle
from talos.machined.api.serving import serve_node
from talos.machined.boot.config_loading import ConfigLoader
from talos.machined.boot.machine import STATE_DIR, Machine
from talos.machined.boot.make_machine import make_node
from talos.machined.controllers.block.volume_manager import VolumeParts
from talos.machined.controllers.registry import Parts, make_controllers
from talos.machined.platform.arguments import find_mistakes
from talos.resource.controller.graph import dependencies
from talos.resource.controller.runtime import run_controllers
from talos.system import kernel


async def run_node(
    machine: Machine, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """The API and the controllers."""
    node = make_node(machine)
    parts = Parts(
        node=node,
        stage=machine.stage,
        etc=machine.etc,
        set_hostname=kernel.set_hostname,
        bridge=machine.daemon.bridge,
        log=machine.controllers_log,
        volumes=VolumeParts(
            state=machine.state,
            blocks=KernelBlocks(machine.processes.capture),
            mounts=machine.ports.mounts,
            refresh=partial(refresh_discovery, machine.state, wait=False),
            log=machine.controllers_log,
        ),
        meta=machine.meta,
        identity=machine.identity,
        show_identity=machine.show_identity,
        params=machine.params,
    )
    await begin_lifecycle(machine.state)
    controllers = make_controllers(parts)
    async with serve_node(machine.daemon, node, dependencies(controllers)):
        task_status.started()
        await run_controllers(machine.state, controllers)
        await trio.sleep_forever()


async def load_config(machine: Machine) -> None:
    """The task ``loadConfig``; before it, mistakes among the kernel's arguments are named."""
    for line in find_mistakes(machine.platform.arguments):
        machine.log.warning(f"kernel argument {line}")
    loader = ConfigLoader(
        state=machine.state,
        state_dir=STATE_DIR,
        platform=machine.platform,
        files=machine.ports.files,
        mounts=machine.ports.mounts,
        stage=machine.stage,
        events=machine.events,
        log=machine.log,
    )
    await loader.load()
