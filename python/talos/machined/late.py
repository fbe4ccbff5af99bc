"""What PID 1 needs only while its first daemons are starting already: the API, controllers, config.

Loaded in a thread: the State answers networkd meanwhile.
"""

import trio

from talos.machined.config_loading import ConfigLoader
from talos.machined.controllers.registry import Parts, make_controllers
from talos.machined.machine import STATE_DIR, Machine
from talos.machined.make_machine import make_node
from talos.machined.serving import serve_node
from talos.resource.graph import dependencies
from talos.resource.runtime import run_controllers
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
        log=machine.log,
    )
    controllers = make_controllers(parts)
    async with serve_node(machine.daemon, node, dependencies(controllers)):
        task_status.started()
        await run_controllers(machine.state, controllers)
        await trio.sleep_forever()


async def load_config(machine: Machine) -> None:
    """The task ``loadConfig``."""
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
