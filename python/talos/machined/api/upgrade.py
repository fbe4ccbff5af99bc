"""LifecycleService/Install and Upgrade, and the older MachineService/Upgrade and Rollback."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import partial

import trio

from talos.api.common import common_pb2
from talos.api.machine import lifecycle_pb2, machine_pb2
from talos.api.rpc import Call, Code, Handler, RpcError, Send
from talos.disks.installation import is_installed
from talos.images.reference import parse_reference
from talos.machined.api.images import Instance, open_instance, pull_into
from talos.machined.containerd.release import check_manifest, load_release
from talos.machined.containerd.store import find_image
from talos.machined.node.ports.node import Node
from talos.machined.node.ports.power import RebootMode, SequenceLockedError
from talos.system.errors import UserError
from talos.upgrade.release.layer import Release
from talos.upgrade.session import Steps
from talos.upgrade.state import BUSY, PENDING

LINES = 64
"""Lines that wait for a slow client."""
INVALID, DEPENDENCY, IO_FAILED = 2, 5, 6
"""Exit codes of upstream's installer: the release is refused, containerd or etcd refuses, a disk fails."""

_Progress = lifecycle_pb2.LifecycleServiceInstallProgress
_Response = lifecycle_pb2.LifecycleServiceUpgradeResponse
_InstallResponse = lifecycle_pb2.LifecycleServiceInstallResponse


def lifecycle_handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.LifecycleService."""

    async def install(request: lifecycle_pb2.LifecycleServiceInstallRequest, _call: Call, send: Send) -> None:
        if await is_installed(node.state):
            raise RpcError(Code.ALREADY_EXISTS, "Talos is already installed")
        # A machine is installed once.
        from talos.disks.install.release import install_release

        async def write(report: Callable[[str], None]) -> None:
            where, image = request.containerd, request.source.image_name
            steps = Steps(node.events.publish)
            instances = open_instance(node, where.namespace, is_cri=where.driver == common_pb2.CRI)
            async with steps.sequence("install"), instances as instance:
                release = await _verify(instance, image, node, steps, report)
                async with steps.phase("install", "install"):
                    await install_release(node.upgrades, release, request.destination.disk, report)

        async def forward(progress: lifecycle_pb2.LifecycleServiceInstallProgress) -> None:
            await send(_InstallResponse(progress=progress))

        with _claim(node) as claim:
            if not request.destination.disk:
                raise RpcError(Code.INVALID_ARGUMENT, "destination.disk is required")
            await run_installer(write, forward, claim.pop_all())

    async def upgrade(request: lifecycle_pb2.LifecycleServiceUpgradeRequest, _call: Call, send: Send) -> None:
        await _check_installed(node)

        async def install(report: Callable[[str], None]) -> None:
            where = request.containerd
            is_cri = where.driver == common_pb2.CRI
            steps, image = Steps(node.events.publish), request.source.image_name
            instances = open_instance(node, where.namespace, is_cri=is_cri)
            async with steps.sequence("upgrade"), instances as instance:
                release = await _verify(instance, image, node, steps, report)
                async with steps.phase("check", "checkUpgrade"):
                    installer = await node.upgrades.prepare(release, report=report)
                    async with ending_upgrade(node):
                        await node.upgrade_lock.take(report)
                async with steps.phase("upgrade", "upgrade"), ending_upgrade(node):
                    await installer(report)

        async def forward(progress: lifecycle_pb2.LifecycleServiceInstallProgress) -> None:
            await send(_Response(progress=progress))

        with _claim(node) as claim:
            await run_installer(install, forward, claim.pop_all())

    return {"Install": install, "Upgrade": upgrade}


async def run_installer(
    install: Callable[[Callable[[str], None]], Awaitable[None]],
    send: Callable[[lifecycle_pb2.LifecycleServiceInstallProgress], Awaitable[None]],
    claim: AbstractContextManager[object],
) -> None:
    """Send the installer's lines as they come, a failure as the last of them, then the exit code.

    ``claim`` ends before the exit code is sent: then the next call may come.
    """
    lines_in, lines_out = trio.open_memory_channel[str](LINES)
    code = 0

    def report(line: str) -> None:
        try:
            lines_in.send_nowait(line)
        except trio.WouldBlock:
            return  # the installer does not wait for a slow reader

    async def run() -> None:
        nonlocal code
        reason = ""
        with lines_in:
            with claim:
                try:
                    await install(report)
                except UserError as error:
                    code, reason = INVALID, f"refused: {error}"
                except OSError as error:
                    code, reason = IO_FAILED, f"failed: {error}"
                except RpcError as error:
                    code, reason = DEPENDENCY, f"refused: {error.reason}"
            if reason:  # it is not left out, however slow the reader
                await lines_in.send(reason)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        async for line in lines_out:
            await send(_Progress(message=f"{line}\n"))
    await send(_Progress(exit_code=code))


def machine_handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""

    async def upgrade(request: machine_pb2.UpgradeRequest, _call: Call) -> machine_pb2.UpgradeResponse:
        if request.reboot_mode not in machine_pb2.UpgradeRequest.RebootMode.values():
            raise RpcError(Code.INVALID_ARGUMENT, f"unknown reboot mode {request.reboot_mode}")
        await _check_installed(node)
        with _claim(node) as claim:
            # This instance keeps its content in memory: it is still there when /var is unmounted.
            async with open_instance(node, common_pb2.NS_SYSTEM, is_cri=False) as instance:
                if await find_image(instance.containerd, str(parse_reference(request.image))) is None:
                    await pull_into(instance, request.image, node, admit=partial(_admit, node=node))
                release = await _load(instance, request.image, node)
            installer = await node.upgrades.prepare(release, force=request.force)
            lock = None if request.force or request.preserve else node.upgrade_lock
            kept = ExitStack()
            try:
                async with ending_upgrade(node):
                    if lock:
                        await lock.take(node.upgrades.log.info)
                    actor = node.power.upgrade(
                        partial(installer, node.upgrades.log.info),
                        staged=request.stage,
                        lock=lock,
                        stay=kept.close,
                    )
            except SequenceLockedError as locked:
                actor = locked.actor
            else:
                kept.push(claim.pop_all())  # the machine ends, whatever becomes of the upgrade, or stays up
        found = machine_pb2.Upgrade(ack="Upgrade request received", actor_id=actor)
        return machine_pb2.UpgradeResponse(messages=[found])

    async def rollback(_request: machine_pb2.RollbackRequest, _call: Call) -> machine_pb2.RollbackResponse:
        with _claim(node) as claim:
            if node.upgrades.current.phase in PENDING:
                await node.upgrades.roll_back()  # it has the lock, until the next boot
            else:
                async with ending_upgrade(node):
                    await node.upgrade_lock.take_for_rollback(node.upgrades.log)
                    await node.upgrades.roll_back()
            node.power.reboot(mode=RebootMode.FORCE)
            claim.pop_all()  # until the machine ends: a second one would take this one back
        return machine_pb2.RollbackResponse(messages=[machine_pb2.Rollback()])

    return {"Upgrade": upgrade, "Rollback": rollback}


@asynccontextmanager
async def ending_upgrade(node: Node) -> AsyncGenerator[None]:
    """After a failure another control plane node may upgrade; after a success only the verdict allows it.

    What has no verdict yet keeps the lock: it is booted next, or on trial.
    """
    try:
        yield
    except BaseException:
        if node.upgrades.current.phase in PENDING:
            raise
        await node.upgrade_lock.release()
        raise


async def _check_installed(node: Node) -> None:
    if node.platform.has_disks and not await is_installed(node.state):
        raise RpcError(Code.FAILED_PRECONDITION, "Talos is not installed")


@contextmanager
def _claim(node: Node) -> Generator[ExitStack]:
    """Only one call at a time installs: another one would give back the lock in etcd that this one has."""
    with ExitStack() as stack:
        try:
            claim = stack.enter_context(node.upgrades.claim())
        except UserError:
            raise RpcError(Code.FAILED_PRECONDITION, BUSY) from None
        yield claim


async def _admit(data: bytes, where: str, *, node: Node) -> None:
    await check_manifest(data, where, keys=node.upgrades.keys)


async def _load(instance: Instance, name: str, node: Node) -> Release:
    return await load_release(instance.containerd, name, root=instance.root, keys=node.upgrades.keys)


async def _verify(
    instance: Instance, name: str, node: Node, steps: Steps, report: Callable[[str], None]
) -> Release:
    """The phase before anything is written."""
    async with steps.phase("verify", "verifyRelease"):
        report(f"checking {name}")
        release = await _load(instance, name, node)
        report(f"{describe(release)} is complete and signed by a key that this system trusts")
    return release


def describe(release: Release) -> str:
    """A release for a person."""
    return f"{release.manifest.version}, commit {release.manifest.commit},"
