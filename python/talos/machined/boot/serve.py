"""The API, the controllers and the config of PID 1: not needed to start the first daemons.

Imported in a thread, so that the event loop serves the State to the daemons meanwhile.
"""

from functools import partial

import trio

from talos.disks.refresh import refresh_discovery
from talos.disks.volumes.blocks import KernelBlocks
from talos.disks.volumes.crypt_devices import KernelCryptDevices
from talos.disks.volumes.requests import create_lifecycle
from talos.disks.volumes.scrubber import Scrubber
from talos.machined.api.metrics import Counts
from talos.machined.api.server import serve_node
from talos.machined.boot.cloud_network import CloudNetwork, make_source
from talos.machined.boot.config_loading import ConfigLoader
from talos.machined.boot.filesystems import VarFolders, make_missing_directory
from talos.machined.boot.machine import STATE_DIR, Machine
from talos.machined.boot.make_machine import make_node
from talos.machined.controllers.block.volume_settler import VolumeContext
from talos.machined.controllers.registry import ControllerContext, make_controllers
from talos.machined.node.etc_files import write_pod_resolvers
from talos.machined.node.etc_layer import ETC_LAYER
from talos.machined.node.tpm_keys import KernelTpmKeys
from talos.machined.platform.arguments import find_problems
from talos.machined.platform.clouds.registry import find_cloud
from talos.resource.controller.activity import Activities
from talos.resource.controller.graph import dependencies
from talos.resource.controller.runtime import run_controllers
from talos.system import kernel
from talos.system.block.luks import Luks
from talos.system.block.scrub import scrub_filesystem
from talos.system.efi_variables import EfiVariables


async def run_node(
    machine: Machine, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run the API and the controllers until cancelled."""
    node = make_node(machine)
    context = ControllerContext(
        node=node,
        logs=machine.logs,
        stage=machine.stage,
        etc=machine.etc,
        etc_layer=ETC_LAYER,
        set_hostname=kernel.set_hostname,
        write_pod_resolvers=write_pod_resolvers,
        bridge=machine.daemon.bridge,
        log=machine.controllers_log,
        volumes=VolumeContext(
            state=machine.state,
            blocks=KernelBlocks(machine.processes.capture),
            mounts=machine.ports.mounts,
            refresh=partial(refresh_discovery, machine.state, wait=False),
            make_folder=make_missing_directory,
            folders=VarFolders(),
            devices=KernelCryptDevices(Luks(machine.processes.capture)),
            meta=machine.meta,
            keys=machine.keys,
            open_keys=machine.open_keys,
            tpm=KernelTpmKeys(EfiVariables()),
            scrubber=Scrubber(scrub_filesystem),
            log=machine.controllers_log,
        ),
        meta=machine.meta,
        slots=machine.platform.slots,
        identity=machine.identity,
        show_identity=machine.show_identity,
        params=machine.params,
    )
    await create_lifecycle(machine.state)
    controllers = make_controllers(context)
    activities: Activities = {}
    counts = Counts(activities=activities, watches=machine.state.open_watches)
    async with serve_node(machine.daemon, node, dependencies(controllers), counts):
        task_status.started()
        await run_controllers(machine.state, controllers, activities=activities)
        await trio.sleep_forever()


async def load_config(machine: Machine) -> None:
    """The task ``loadConfig``; it also logs mistakes among the kernel's arguments."""
    for line in find_problems(machine.platform.arguments):
        machine.log.warning(f"kernel argument {line}")
    start_cloud_network(machine)
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


def start_cloud_network(machine: Machine) -> None:
    """On a cloud's machine, have its network and names published, and kept up to the end of the boot."""
    cloud = find_cloud(machine.platform.name)
    if cloud is None:
        return
    source = make_source(
        state=machine.state,
        files=machine.ports.files,
        mounts=machine.ports.mounts,
        arguments=machine.platform.arguments,
        report=lambda text: machine.log.info(f"name and network of the platform: {text}"),
    )
    network = CloudNetwork(
        state=machine.state,
        state_dir=STATE_DIR,
        cloud=cloud,
        source=source,
        base=machine.platform.load_network(),
        log=machine.log,
    )
    machine.nursery.start_soon(network.run)
