"""The machine config as a daemon sees it: without the secrets of others."""

import logging
from dataclasses import replace
from functools import lru_cache, partial

import trio
from google.protobuf.message import Message

from talos.api.resource.config_pb2 import MachineConfigSpec
from talos.api.rpc import Call
from talos.process.daemons import DaemonSpec
from talos.resource import kinds
from talos.resource.remote.service import View
from talos.resource.resource import Resource
from talos.system.errors import UserError

log = logging.getLogger(__name__)

VERSIONS = 4
"""Configs whose views are kept: the daemons that read them read the last one, and maybe the one before."""


def make_view(daemon: DaemonSpec) -> View:
    """What a daemon sees of each resource."""

    async def show(resource: Resource[Message], call: Call) -> Resource[Message]:
        del call
        spec = resource.spec
        if resource.metadata.type != kinds.MACHINE_CONFIG.type or not isinstance(spec, MachineConfigSpec):
            return resource
        read = partial(withhold_secrets, spec.yaml_marshalled, daemon.config_secrets)
        shown = await trio.to_thread.run_sync(read)
        return replace(resource, spec=MachineConfigSpec(yaml_marshalled=shown))

    return show


@lru_cache(VERSIONS)
def withhold_secrets(text: bytes, keep: tuple[str, ...]) -> bytes:
    """A config without secrets but those of sections in the modules ``keep``; empty when it can't be read."""
    # What reads configs is large, and PID 1 has better to do when it starts.
    from talos.config.active import parse_active
    from talos.config.read.loader import dump_plain
    from talos.config.write.plain import withhold

    try:
        return dump_plain([withhold(document, keep) for document in parse_active(text).documents]).encode()
    except UserError as error:
        log.error("daemons see no machine config, it can't be read: %s", error)  # noqa: TRY400 - a user's mistake
        return b""
