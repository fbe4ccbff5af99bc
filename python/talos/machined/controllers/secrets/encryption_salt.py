"""EncryptionSalt: random bytes of this machine, from which disk keys are derived."""

import os
from pathlib import Path
from typing import Any, cast

import trio
import yaml

from talos.api.definitions.secrets_pb2 import EncryptionSaltSpec
from talos.machined.node.identity import keep_file
from talos.machined.node.state_folder import find_state_folder
from talos.resource import ids, kinds
from talos.resource.controller.controller import ControllerRuntime, Input, Output, Reconciler
from talos.system.errors import UserError

FILE = "encryption-salt.yaml"
BYTES = 32
_KEY = "diskSalt"


class EncryptionSaltController(Reconciler):
    """VolumeMountStatus of STATE → EncryptionSalt, made the first time."""

    name = "secrets.EncryptionSaltController"
    inputs = (Input(kinds.VOLUME_MOUNT_STATUS),)
    outputs = (Output(kinds.ENCRYPTION_SALT),)

    async def reconcile(self, runtime: ControllerRuntime) -> None:
        """Write the one resource as soon as STATE is there; it doesn't change any more then."""
        if await runtime.get_or_none(*ids.ENCRYPTION_SALT) is not None:
            return
        folder = await find_state_folder(runtime)
        if folder is not None:
            salt = await trio.to_thread.run_sync(keep_salt, folder / FILE)
            await runtime.put(*ids.ENCRYPTION_SALT, EncryptionSaltSpec(disk_salt=salt))


def keep_salt(path: Path) -> bytes:
    """The salt in a file, a new one the first time."""
    text = keep_file(path, yaml.safe_dump({_KEY: list(os.urandom(BYTES))}))
    try:
        return bytes(cast("dict[str, Any]", yaml.safe_load(text))[_KEY])
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        raise UserError("holds no salt", where=str(path), hint="restore the file, or reset STATE") from None
