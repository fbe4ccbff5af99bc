"""TUFTrustedRoot: whose certificates and logs count for keyless signatures of images."""

from pathlib import Path
from typing import override

import trio

from talos.api.definitions.security_pb2 import TUFTrustedRootSpec
from talos.api.timestamps import make_timestamp
from talos.config.active import read_config
from talos.config.documents.security.sigstore_trusted_root import SigstoreTrustedRootConfig
from talos.images.rules import make_rules
from talos.machined.node.state_folder import find_state_folder
from talos.machined.tuf.start import Run, keep_trusted, load_trusted, run_refresh
from talos.machined.tuf.trusted import TrustedMetadata
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Input, Output
from talos.resource.environment import read_environment
from talos.system.backoff import Backoff
from talos.system.errors import UserError
from talos.system.logging import Log

OF_SIGSTORE = Path(__file__).with_name("trusted_root.json")
"""That of Sigstore's public instance, as its TUF repository had it when this version was made."""
VERSION = 14
"""Of the repository's targets that list it."""
REFRESH_INTERVAL = 24 * 3600.0
"""Seconds, as upstream's."""
REFRESH_TIMEOUT = 180.0
"""Seconds that one refresh may take."""
FAILURE_BACKOFF = Backoff(10.0, 3600.0)
"""Seconds after a refresh that has failed: the network may come a little later than the config."""
_KEY = "trusted root"


class TUFTrustedRootController(Controller):
    """MachineConfig, VolumeMountStatus, Environment → TUFTrustedRoot, while a rule is for keyless signatures.

    It is the config's; or Sigstore's, at first as the image has it, then as the daily refresh does.
    """

    name = "security.TUFTrustedRootController"
    inputs = (Input(*ids.MACHINE_CONFIG), Input(kinds.VOLUME_MOUNT_STATUS), Input(*ids.ENVIRONMENT))
    outputs = (Output(kinds.TUF_TRUSTED_ROOT),)

    def __init__(self, run: Run, log: Log) -> None:
        self._run = run
        self._log = log
        self._trusted: TrustedMetadata | None = None

    @override
    async def run(self, runtime: ControllerRuntime) -> None:
        """Publish what counts, and refresh it while that is Sigstore's."""
        async with trio.open_nursery() as nursery:
            refreshing: trio.CancelScope | None = None
            async for _ in runtime.events():
                folder = await find_state_folder(runtime)
                if await self._publish(runtime, folder) and folder is not None:
                    if refreshing is None:
                        refreshing = trio.CancelScope()
                        nursery.start_soon(self._refresh, runtime, folder, refreshing)
                elif refreshing is not None:
                    refreshing.cancel()
                    refreshing = None
                runtime.reset_backoff()

    async def _publish(self, runtime: ControllerRuntime, folder: Path | None) -> bool:
        """Write the one resource; whether it is Sigstore's."""
        config = await read_config(runtime)
        own = config.find(SigstoreTrustedRootConfig) if config else None
        async with runtime.track_outputs():
            if not any(rule.keyless for rule in make_rules(config)):
                return False
            if own is None:
                await self._load(folder)
                spec = _make_spec(self._trusted or TrustedMetadata())
            else:
                spec = TUFTrustedRootSpec(json_data=own.trusted_root or "")
            await runtime.put(*ids.TUF_TRUSTED_ROOT, spec)
        return own is None

    async def _load(self, folder: Path | None) -> None:
        """Read what earlier refreshes have left in STATE: nothing older is to come after it."""
        if self._trusted is not None or folder is None:
            return
        self._trusted = TrustedMetadata()
        try:
            self._trusted = await trio.to_thread.run_sync(load_trusted, folder)
        except UserError as error:
            self._log.warning("the trusted root of an earlier refresh stays unused", reason=str(error))

    async def _refresh(self, runtime: ControllerRuntime, folder: Path, scope: trio.CancelScope) -> None:
        """Refresh until cancelled; a failure leaves what there is, and is logged once."""
        with scope:
            while True:
                for delay in FAILURE_BACKOFF:
                    reason = await self._try(runtime, folder)
                    if not reason:
                        break
                    self._log.once(f"the trusted root of Sigstore stays as it is: {reason}", key=_KEY)
                    await trio.sleep(delay)
                self._log.forget(_KEY)
                await trio.sleep(REFRESH_INTERVAL)

    async def _try(self, runtime: ControllerRuntime, folder: Path) -> str:
        """Refresh once, and keep what was verified; why it is not complete, if so."""
        variables = await read_environment(runtime)
        before = self._trusted or TrustedMetadata()
        try:
            with trio.fail_after(REFRESH_TIMEOUT):
                self._trusted, reason = await run_refresh(self._run, before, variables)
        except trio.TooSlowError:
            return f"no end after {REFRESH_TIMEOUT:.0f} s"
        except UserError as error:
            return str(error)
        if self._trusted != before:
            runtime.queue_reconcile()
            try:
                await trio.to_thread.run_sync(keep_trusted, folder, self._trusted)
            except OSError as error:
                # It counts until the next start, which may begin with an older one.
                self._log.once(f"a newer trusted root can't be kept: {error.strerror}")
        return reason


def _make_spec(trusted: TrustedMetadata) -> TUFTrustedRootSpec:
    """What was fetched, unless the image has a newer one, which a later version of the system may bring."""
    if trusted.version < VERSION:
        return TUFTrustedRootSpec(json_data=OF_SIGSTORE.read_text(encoding="utf-8"))
    return TUFTrustedRootSpec(
        json_data=trusted.trusted_root, last_refresh_time=make_timestamp(trusted.refreshed)
    )
