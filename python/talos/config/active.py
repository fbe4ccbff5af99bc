"""The machine config in force, as controllers read it.

A process parses each version once, however many of its controllers follow the config and
whatever else wakes them. The cache is keyed by the text, not by the resource's version: a
resource that is destroyed and created again begins at version 1 with another text.
"""

import functools

import trio

from talos.config.model import Config
from talos.config.read.loader import load
from talos.resource import ids
from talos.resource.controller.controller import ControllerRuntime, Input
from talos.resource.state import NotFoundError, State

PARTIAL_CONFIG_INPUTS = (Input(*ids.MACHINE_CONFIG), Input(*ids.MACHINE_CONFIG_MAINTENANCE))
"""What :func:`read_partial_config` reads."""


@functools.lru_cache(maxsize=1)
def parse_active(text: bytes) -> Config:
    """Parse the text of the config in force. A config is frozen: all callers share it.

    ConfigError: the text can't be read.
    """
    return load(text)


async def load_config(state: State) -> Config | None:
    """The machine config in force, for what is no controller; None while there is none. ConfigError."""
    try:
        text = (await state.get(*ids.MACHINE_CONFIG)).spec.yaml_marshalled
    except NotFoundError:
        return None
    return await trio.to_thread.run_sync(parse_active, text)


async def read_config(runtime: ControllerRuntime) -> Config | None:
    """The machine config in force, if there is one; ``ids.MACHINE_CONFIG`` is an input of the caller.

    ConfigError: the text can't be read.
    """
    resource = await runtime.get_or_none(*ids.MACHINE_CONFIG)
    return None if resource is None else parse_active(resource.spec.yaml_marshalled)


async def read_partial_config(runtime: ControllerRuntime) -> Config | None:
    """The config in force, or in maintenance mode the part of one that the machine has already.

    ConfigError: the text can't be read.
    """
    if config := await read_config(runtime):
        return config
    resource = await runtime.get_or_none(*ids.MACHINE_CONFIG_MAINTENANCE)
    return None if resource is None else parse_active(resource.spec.yaml_marshalled)
