"""Where the machine's config is kept: as a file in STATE, and as resources.

Of the resources ``v1alpha1`` is the config in force, ``persistent`` the one that the next
boot begins with.
"""

import os
import tempfile
from pathlib import Path

from talos.api.resource import config_pb2
from talos.resource.changes import modify
from talos.resource.kinds import MACHINE_CONFIG
from talos.resource.state import NotFoundError, State

CONFIG_FILE = "config.yaml"
ACTIVE, PERSISTENT = "v1alpha1", "persistent"
YAML_SPEC = {"talos.dev/yaml-spec": "1"}
"""Says that the resource's YAML is the text itself, as one scalar."""


def write_config(state_dir: Path, data: bytes) -> None:
    """Replace the file as a whole: after a power cut there is either the old or the new one.

    Raises:
        OSError: such as ENOSPC; the old file is then untouched.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{CONFIG_FILE}.", dir=state_dir)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(state_dir / CONFIG_FILE)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


async def publish_config(state: State, id: str, data: bytes) -> None:
    """Make a config known as ACTIVE or PERSISTENT; controllers act on the former."""

    def change(spec: config_pb2.MachineConfigSpec) -> None:
        spec.yaml_marshalled = data

    await modify(state, MACHINE_CONFIG, id, change, annotations=YAML_SPEC)


async def get_config(state: State, id: str) -> bytes | None:
    """The text of a config, None when there is none."""
    try:
        return (await state.get(MACHINE_CONFIG, id)).spec.yaml_marshalled
    except NotFoundError:
        return None
