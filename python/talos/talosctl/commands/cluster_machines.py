"""``talosctl cluster create qemu``: nodes as virtual machines on this machine."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from talos.api.machine.machine_pb2 import ApplyConfigurationRequest
from talos.api.rpc import Code, RpcError
from talos.client.failure import describe
from talos.client.session import open_session
from talos.client.target import Target
from talos.provision.cluster import Disk, Provider
from talos.provision.local import CreateOptions, create_cluster
from talos.provision.plan import ClusterOptions, parse_disks, parse_flag_size
from talos.provision.progress import show_progress
from talos.provision.store import ClusterFolder
from talos.provision.wait import wait_for_api
from talos.system.errors import UserError
from talos.talosctl.cli.command import Command, Invocation
from talos.talosctl.cli.flag import Flag, Flags, Type
from talos.talosctl.client.change import send_config
from talos.talosctl.commands.cluster_kubernetes import bring_up_with_kubernetes
from talos.talosctl.commands.cluster_options import (
    LATEST,
    NODE_FLAGS,
    check_local,
    make_config_options,
    make_options,
    show_next,
    showing_left,
)
from talos.talosctl.commands.cluster_ready import show_services
from talos.talosctl.output import console

ISO_VARIABLE = "TALOS_ISO"
RETRY_INTERVAL = 1.0
"""Seconds between two tries to give a machine its config."""
TRY = 10.0
INSTALL_TIMEOUT = 1200.0  # seconds
"""For all machines to be installed and run, on emulated processors."""
PRESETS = ("iso", "maintenance")
FACTORY = ("image-factory-auth", "schematic-id", "omni-api-endpoint", "talos-version")


def run_create_machines(invocation: Invocation) -> int:
    """Machines by the flags of ``create qemu``."""
    flags = invocation.flags
    check_local(flags)
    is_maintenance = check_presets(flags)
    disks, subnet = parse_disks(flags.texts("disks")), flags.text("cidr")
    chosen = make_machine_options(flags, flags.text("iso-path"), disks, subnet, where="--iso-path")
    return create_machines(flags, chosen, flags.seconds("wait-timeout"), is_maintenance=is_maintenance)


def create_machines_like_containers(flags: Flags) -> int:
    """Machines by the flags that make containers: the image is an ISO, the disk is of the usual kind."""
    disks = (Disk("virtio", parse_flag_size(flags.text("disk"), where="--disk")),)
    chosen = make_machine_options(flags, flags.text("image"), disks, flags.text("subnet"), where="--image")
    seconds = flags.seconds("wait-timeout") if flags.is_given("wait-timeout") else INSTALL_TIMEOUT
    return create_machines(flags, chosen, seconds)


def create_machines(
    flags: Flags, chosen: ClusterOptions, seconds: float, *, is_maintenance: bool = False
) -> int:
    """Create the machines, give them their configs, wait until they are installed and run."""
    options = CreateOptions(
        directory=Path(flags.text("state")), talosconfig=flags.text("talosconfig-destination"), wait=0
    )
    end = time.monotonic() + seconds
    with showing_left(options.directory, chosen.name), show_progress() as progress:
        created = create_cluster(chosen, make_config_options(flags), options, progress)
        nodes = created.info.nodes
        addresses = [str(node.address) for node in nodes]
        if is_maintenance:
            progress.end()
            console.note(f"the machines boot into maintenance mode: {', '.join(addresses)}")
            return 0
        progress.begin("waiting for maintenance mode, then applying the configs")
        folder = ClusterFolder(created.info.directory)
        configs = {str(node.address): folder.config(node.name).read_bytes() for node in nodes}
        asyncio.run(give_configs(configs, end, progress.detail))
        if not flags.is_set("wait"):
            return 0
        progress.begin("waiting for the installation")
        wait_for_api([node.address for node in nodes], created.client.current, left(end))
        services = bring_up_with_kubernetes(created, chosen.images, end, flags, progress)
    console.note("")
    show_services(services)
    show_next(addresses, created.context, flags.text("name"), flags.text("talosconfig-destination"))
    return 0


def left(end: float) -> float:
    """The seconds until a point of the monotonic clock, at least one."""
    return max(end - time.monotonic(), 1.0)


async def give_configs(configs: Mapping[str, bytes], end: float, report: Callable[[str], None]) -> None:
    """Apply each config by the address of its machine, as soon as that is in maintenance mode."""
    target = Target(endpoints=(), nodes=tuple(configs), insecure=True)
    await asyncio.gather(
        *(_give_config(target, address, config, end, report) for address, config in configs.items())
    )


async def _give_config(
    target: Target, address: str, config: bytes, end: float, report: Callable[[str], None]
) -> None:
    request = ApplyConfigurationRequest(data=config, mode=ApplyConfigurationRequest.AUTO)
    while True:
        try:
            async with asyncio.timeout(TRY), open_session(target) as session:
                await send_config(session, address, request)
        except (RpcError, TimeoutError) as error:
            reason = describe(error, target) if isinstance(error, RpcError) else f"no answer in {TRY:g} s"
            if isinstance(error, RpcError) and error.code is Code.INVALID_ARGUMENT:
                raise UserError(reason, where=f"node {address}") from None
            if time.monotonic() > end:
                hint = "see its console: talosctl cluster logs"
                text = f"is not in maintenance mode: {reason}"
                raise UserError(text, where=f"node {address}", hint=hint) from None
            await asyncio.sleep(RETRY_INTERVAL)
        else:
            report(f"{address} has its config")
            return


def check_presets(flags: Flags) -> bool:
    """Whether the machines stay in maintenance mode; UserError for what there is no image for."""
    for name in flags.texts("presets"):
        if name not in PRESETS:
            text = f'there is no preset "{name}"'
            raise UserError(
                text, where="--presets", hint=f"the machines start from an ISO: {' or '.join(PRESETS)}"
            )
    for name in FACTORY:
        if flags.is_given(name):
            text = "no image factory is used"
            raise UserError(text, where=f"--{name}", hint="give the image with --iso-path")
    return "maintenance" in flags.texts("presets")


def make_machine_options(
    flags: Flags, image: str, disks: Sequence[Disk], subnet: str, *, where: str
) -> ClusterOptions:
    """Machines that start from an ISO; ``where`` is the flag that names it."""
    image = image or os.environ.get(ISO_VARIABLE, "")
    if not image:
        hint = f"give the ISO, or set {ISO_VARIABLE}"
        raise UserError("no image is named", where=where, hint=hint)
    path = Path(image).resolve()
    return make_options(flags, image=path, subnet=subnet, provider=Provider.QEMU, disks=disks)


COMMAND = Command(
    name="qemu",
    summary="Create a local cluster whose nodes are virtual machines",
    details=(
        "Each node is a QEMU with disks of its own in the cluster's network. It starts from the ISO, gets "
        "its config, installs itself and restarts from its disk. Root is needed, and QEMU and dnsmasq."
    ),
    example="talosctl cluster create qemu --iso-path build/talos.iso --workers 1",
    flags=(
        *NODE_FLAGS,
        Flag(name="cidr", default="10.5.0.0/24", help="the cluster's subnet; the host has its first address"),
        Flag(
            name="disks",
            type=Type.STRINGS,
            default="virtio:10GiB,virtio:6GiB",
            metavar="disks",
            help="each machine's disks, the first for the system; DRIVER:SIZE",
        ),
        Flag(name="iso-path", help=f"what the machines start from; {ISO_VARIABLE} names it otherwise"),
        Flag(
            name="presets",
            type=Type.STRINGS,
            default="iso",
            help="iso; maintenance leaves the machines without a config",
        ),
        Flag(name="wait-timeout", type=Type.DURATION, default="20m0s", help="how long to wait for the nodes"),
        Flag(name="image-factory-auth", help="not possible here"),
        Flag(name="image-factory-url", default="https://factory.talos.dev/", help="accepted: it is not used"),
        Flag(name="omni-api-endpoint", help="not possible here"),
        Flag(name="schematic-id", help="not possible here"),
        Flag(name="talos-version", default=LATEST, help="accepted: the nodes run the ISO's"),
    ),
    run=run_create_machines,
)
