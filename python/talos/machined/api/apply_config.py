"""ApplyConfiguration: check a config, show what it would change, put it in force."""

import errno
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import trio

from talos.api.durations import format_duration
from talos.api.machine import machine_pb2 as pb
from talos.api.rpc import Call, Code, Handler, RpcError
from talos.api.timestamps import read_duration
from talos.config.change.diff import diff, effects
from talos.config.check.validate import Mode as Place
from talos.config.check.validate import check
from talos.config.model import Config, MachineType
from talos.config.read.loader import load
from talos.disks.volumes.backing import check_backing
from talos.machined.api.cut_off import find_call_cut_offs
from talos.machined.api.disk_plan import describe_disk_plan
from talos.machined.api.machine_warnings import find_missing
from talos.machined.api.power import begin_reboot
from talos.machined.api.pump import in_thread
from talos.machined.node.config_store import (
    ConfigResource,
    get_config,
    publish_config,
    write_config,
)
from talos.machined.node.ports.node import Node
from talos.resource import ids, kinds
from talos.resource.changes import destroy_if_present
from talos.system.backoff import Backoff
from talos.system.errors import UserError

type _Request = pb.ApplyConfigurationRequest
type _Mode = pb.ApplyConfigurationRequest.Mode

_REBOOT = pb.ApplyConfigurationRequest.REBOOT
_AUTO = pb.ApplyConfigurationRequest.AUTO
_NO_REBOOT = pb.ApplyConfigurationRequest.NO_REBOOT
_STAGED = pb.ApplyConfigurationRequest.STAGED
_TRY = pb.ApplyConfigurationRequest.TRY

_PLACES = {place.value: place for place in Place}
_TRY_TIMEOUT = 60.0  # seconds
_REVERT_BACKOFF = Backoff(1.0, 60.0)  # seconds


def handlers(node: Node) -> Mapping[str, Handler]:
    """Those of machine.MachineService."""
    return {"ApplyConfiguration": Applier(node).apply}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigTrial:
    """A config on trial: the config to revert to, None for none, and the scope that ends the trial early."""

    resource: ConfigResource
    before: bytes | None
    scope: trio.CancelScope


class Applier:
    """Applies one config at a time, and holds the config on trial, if there is one."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._busy = False
        self._place = _PLACES.get(node.platform.mode, Place.METAL)
        self._writing = trio.Lock()
        self._trial: ConfigTrial | None = None

    async def apply(self, request: _Request, call: Call) -> pb.ApplyConfigurationResponse:
        """Handle a request.

        RpcError: for a mode that can't be; FAILED_PRECONDITION while another call is served.
        UserError: with everything that is wrong with the config.
        """
        with self._lock():
            before = await self._get_active()
            config = await in_thread(_read, request.data)
            mode = _choose_mode(request.mode, config, in_maintenance=before is None)
            timeout = _get_timeout(request)
            problems = await in_thread(check, config, self._place, partial=not config.is_complete)
            if before is not None and not config.is_complete:
                raise UserError(
                    # Existing clients look for the beginning.
                    "the applied machine configuration doesn't contain v1alpha1 config",
                    hint="a running machine needs its main document; did you mean to patch the config?",
                )
            check_machine_type(before, config)
            if before is not None and self._node.platform.has_disks:
                check_backing(config, await self._node.state.list(kinds.VOLUME_STATUS))
            warnings = [*map(str, problems), *make_warnings(before, config)]
            if self._node.platform.has_disks:
                warnings += await in_thread(find_missing, config)
            warnings += await find_call_cut_offs(self._node.state, before, config, call)
            details = _describe(mode, timeout)
            # A config that can't be installed is refused before it is kept.
            plan = await describe_disk_plan(self._node, config) if before is None else ""
            if request.dry_run:
                details = await in_thread(make_summary, details, before, config)
                details += f"\n{plan}" if plan else ""
            else:
                await self._put_in_force(mode, timeout, config)
        message = pb.ApplyConfiguration(mode=mode, mode_details=details, warnings=warnings)
        return pb.ApplyConfigurationResponse(messages=[message])

    async def _get_active(self) -> Config | None:
        """The config in force; None in maintenance."""
        text = await get_config(self._node.state, ids.MACHINE_CONFIG)
        if text is None:
            return None
        try:
            return await in_thread(load, text)
        except UserError:
            # An earlier version accepted it; it must not be in the way of a better one.
            return Config(())

    @contextmanager
    def _lock(self) -> Generator[None]:
        if self._busy:
            raise RpcError(Code.FAILED_PRECONDITION, "another apply configuration is already in progress")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    async def _put_in_force(self, mode: _Mode, seconds: float, config: Config) -> None:
        """Shielded from cancellation by the caller: file and resources must stay consistent."""
        state, data = self._node.state, config.text
        with trio.CancelScope(shield=True):
            async with self._writing:
                if mode == _TRY:
                    is_running = await get_config(state, ids.MACHINE_CONFIG) is not None
                    resource = ids.MACHINE_CONFIG if is_running else ids.MACHINE_CONFIG_MAINTENANCE
                    # A second trial reverts to the config from before the first.
                    before = self._trial.before if self._trial else await get_config(state, resource)
                    await publish_config(state, resource, data)
                    self._end_trial()
                    self._begin_trial(resource, before, seconds)
                    return
                try:
                    await in_thread(write_config, self._node.ports.state_dir, data)
                except OSError as error:
                    raise _make_write_error(error) from error
                await self._make_permanent(mode, config)
                if mode == _REBOOT:
                    await self._reboot()

    async def _reboot(self) -> None:
        try:
            await begin_reboot(self._node)
        except RpcError as error:
            text = f"the config is kept for the next boot, but the node does not reboot now: {error.reason}"
            raise RpcError(error.code, text) from None

    async def _make_permanent(self, mode: _Mode, config: Config) -> None:
        state = self._node.state
        self._end_trial()
        await publish_config(state, ids.MACHINE_CONFIG_PERSISTENT, config.text)
        if mode not in {_STAGED, _REBOOT}:
            # Of a config that is not complete, the network can be used already.
            active = ids.MACHINE_CONFIG if config.is_complete else ids.MACHINE_CONFIG_MAINTENANCE
            await publish_config(state, active, config.text)

    def _begin_trial(self, resource: ConfigResource, before: bytes | None, seconds: float) -> None:
        trial = self._trial = ConfigTrial(resource=resource, before=before, scope=trio.CancelScope())

        async def revert() -> None:
            with trial.scope:
                await trio.sleep(seconds)
                for delay in _REVERT_BACKOFF:
                    if await self._revert(trial, delay):
                        return
                    await trio.sleep(delay)

        # It must outlive the call that started it.
        trio.lowlevel.spawn_system_task(revert, name="revert the config on trial")

    async def _revert(self, trial: ConfigTrial, pause: float) -> bool:
        """Whether the config from before is in force again; else the next attempt is in ``pause`` seconds.

        Until then the trial goes on: a config that is applied for good ends it.
        """
        text = "the config on trial is reverted"
        async with self._writing:
            with trio.CancelScope(shield=True):
                try:
                    if trial.before is None:
                        await destroy_if_present(self._node.state, *trial.resource)
                    else:
                        await publish_config(self._node.state, trial.resource, trial.before)
                    self._trial = None
                except Exception as error:  # noqa: BLE001 - any exception of a system task would end PID 1
                    text = f"can't revert the config on trial, again in {pause:g} s: {error}"
        self._node.logs.append("machined", f"{text}\n".encode())
        return self._trial is not trial

    def _end_trial(self) -> None:
        if self._trial is not None:
            self._trial.scope.cancel()
            self._trial = None


def _choose_mode(mode: _Mode, config: Config, *, in_maintenance: bool) -> _Mode:
    """The mode that is reported; in maintenance there is nothing yet that a reboot would have to end."""
    if mode not in pb.ApplyConfigurationRequest.Mode.values():
        raise RpcError(Code.INVALID_ARGUMENT, f"unknown mode {mode}")
    if mode == _TRY and in_maintenance and config.is_complete:
        text = (
            "a whole config can't be tried in maintenance, as it may install the machine: try its network's"
        )
        raise RpcError(Code.FAILED_PRECONDITION, f"{text} documents alone")
    return _NO_REBOOT if mode == _AUTO or (mode == _REBOOT and in_maintenance) else mode


def _get_timeout(request: _Request) -> float:
    if not request.HasField("try_mode_timeout"):
        return _TRY_TIMEOUT
    seconds = read_duration(request.try_mode_timeout)
    if request.mode == _TRY and seconds <= 0:
        raise RpcError(Code.INVALID_ARGUMENT, "try_mode_timeout must be positive")
    return seconds


def _read(data: bytes) -> Config:
    config = load(data)
    if not config.documents:
        raise UserError("the config is empty")
    return config


def check_machine_type(before: Config | None, config: Config) -> None:
    """The role can't change, as the disks' content depends on it; except ``init`` to ``controlplane``."""
    old = before.machine_type if before is not None else MachineType.UNKNOWN
    new = config.machine_type
    if old is MachineType.UNKNOWN or new is old:
        return
    if old is MachineType.INIT and new is MachineType.CONTROL_PLANE:
        return
    raise UserError(
        f"the machine is {old.value}, it can't become {new.value}",
        where="machine.type",
        hint="reset the machine, then apply the config",
    )


def _describe(mode: _Mode, timeout: float) -> str:
    match mode:
        case pb.ApplyConfigurationRequest.STAGED:
            return "Staged configuration to be applied after the next reboot"
        case pb.ApplyConfigurationRequest.REBOOT:
            return "Applied configuration with a reboot"
        case pb.ApplyConfigurationRequest.TRY:
            return (
                "The config is applied in 'try' mode and will be automatically reverted back in "
                f"{format_duration(timeout)}"
            )
        case _:
            return "Applied configuration without a reboot"


def make_summary(details: str, before: Config | None, config: Config) -> str:
    """The text of a dry run: what would be done, and the diff without secrets."""
    changes = diff(before, config)
    text = f"Config diff:\n\n{changes}" if changes else "No changes."
    return f"Dry run summary:\n{details} (skipped in dry-run).\n{text}"


def make_warnings(before: Config | None, config: Config) -> list[str]:
    """A line for each changed setting that takes effect later."""
    if before is None:
        return []
    return [
        f"{effect.path}: the change takes effect {effect.applies.value}" for effect in effects(before, config)
    ]


def _make_write_error(error: OSError) -> RpcError:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return RpcError(
            Code.RESOURCE_EXHAUSTED, "no space left to keep the config; the one that is kept is unchanged"
        )
    return RpcError(
        Code.UNKNOWN, f"can't keep the config, the one that is kept is unchanged: {error.strerror}"
    )
