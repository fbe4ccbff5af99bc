"""The machine's config as a file in STATE and as resources.

Of the resources ``v1alpha1`` is the config in force, ``persistent`` the one that the next
boot starts with, ``maintenance`` what there is of one that is not complete yet.
"""

from pathlib import Path

from talos.api.resource import config_pb2
from talos.resource.changes import put
from talos.resource.ids import Singleton
from talos.resource.state import NotFoundError, State
from talos.system.files import replace_durably

CONFIG_FILE = "config.yaml"
YAML_SPEC = {"talos.dev/yaml-spec": "1"}
"""Annotation: the resource's YAML is the text itself, as one scalar."""


def write_config(state_dir: Path, data: bytes) -> None:
    """Replace the file as a whole: after a power cut there is either the old or the new one.

    OSError: such as ENOSPC; the old file is then untouched.
    """
    replace_durably(state_dir / CONFIG_FILE, [data], mode=0o600)


type ConfigResource = Singleton[config_pb2.MachineConfigSpec]
"""``ids.MACHINE_CONFIG``, which controllers act on, or one of its two siblings."""


async def publish_config(state: State, resource: ConfigResource, data: bytes) -> None:
    """Write a config into its resource."""
    spec = config_pb2.MachineConfigSpec(yaml_marshalled=data)
    await put(state, *resource, spec, annotations=YAML_SPEC)


async def get_config(state: State, resource: ConfigResource) -> bytes | None:
    """The text of a config, None when there is none."""
    try:
        return (await state.get(*resource)).spec.yaml_marshalled
    except NotFoundError:
        return None
