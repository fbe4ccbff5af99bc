"""Changing the configuration of a running node: fetch, change, send, show the result."""

from collections.abc import Callable

from google.protobuf.duration_pb2 import Duration

from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.machine.machine_pb2 import (
    ApplyConfiguration,
    ApplyConfigurationRequest,
    ApplyConfigurationResponse,
)
from talos.client.resources import find_definition, get_resource
from talos.client.session import Session
from talos.config.generate.config import render
from talos.config.model import Config
from talos.config.read.loader import load
from talos.config.schema import Document
from talos.system.errors import UserError
from talos.talosctl.cli.flag import Flags
from talos.talosctl.client.command import parts
from talos.talosctl.output import console
from talos.talosctl.output.yaml_text import parse_yaml

CONFIG_TYPE, ACTIVE = "MachineConfigs.config.talos.dev", "v1alpha1"
_MODES = {
    "auto": ApplyConfigurationRequest.AUTO,
    "no-reboot": ApplyConfigurationRequest.NO_REBOOT,
    "staged": ApplyConfigurationRequest.STAGED,
    "try": ApplyConfigurationRequest.TRY,
}


async def fetch_config(session: Session, node: str, name: str, flags: Flags) -> str:
    """The node's active config, which the name must mean."""
    definition: ResourceDefinitionSpec = await find_definition(session, node, name)
    if definition.resource_type != CONFIG_TYPE:
        raise UserError(
            f"{definition.resource_type} can't be changed", hint="only machineconfig is the user's to change"
        )
    namespace = flags.text("namespace") or definition.default_namespace
    resource = await get_resource(session, node, namespace, CONFIG_TYPE, ACTIVE)
    return _read_text(resource.spec.yaml_spec)


async def read_config(session: Session, node: str) -> str:
    """The text of the node's active config; RpcError."""
    resource = await get_resource(session, node, "config", CONFIG_TYPE, ACTIVE)
    return _read_text(resource.spec.yaml_spec)


def _read_text(spec: str) -> str:
    # The spec is one YAML string that holds the whole text.
    text = parse_yaml(spec)
    return text if isinstance(text, str) else spec


type Change = Callable[[Config], Config]
"""Changes a node's config."""


async def change_config(session: Session, node: str, change: Change, *, docs: bool, examples: bool) -> bool:
    """Change the config of a running node without a reboot; whether there was something to change."""
    config = load(await read_config(session, node), source=node)
    changed = change(config)
    if changed.documents == config.documents:
        return False
    new = render(Config(changed.documents), docs=docs, examples=examples)
    request = ApplyConfigurationRequest(data=new.encode(), mode=ApplyConfigurationRequest.NO_REBOOT)
    await send_config(session, node, request)
    return True


def replace_document(config: Config, old: Document, new: Document) -> Config:
    """The config with one document instead of another."""
    return Config(tuple(new if document is old else document for document in config.documents))


def make_apply_request(text: str | bytes, flags: Flags) -> ApplyConfigurationRequest:
    """The request that the flags of apply-config, edit and patch describe."""
    timeout = flags.seconds("timeout")
    return ApplyConfigurationRequest(
        data=text.encode() if isinstance(text, str) else text,
        mode=_MODES[flags.text("mode")],
        dry_run=flags.is_set("dry-run"),
        try_mode_timeout=Duration(seconds=int(timeout), nanos=int(timeout % 1 * 1e9)),
    )


async def send_config(
    session: Session, node: str, request: ApplyConfigurationRequest
) -> list[ApplyConfiguration]:
    """Send a config; returns the node's results."""
    path = "/machine.MachineService/ApplyConfiguration"
    reply = await session.unary(node, path, request, ApplyConfigurationResponse)
    return list(parts(reply, ApplyConfiguration))


async def send_or_try(
    session: Session, node: str, request: ApplyConfigurationRequest
) -> list[ApplyConfiguration]:
    """:func:`send_config` to a running node; the details of a dry run have its disks before and after."""
    results = await send_config(session, node, request)
    if request.dry_run and results:
        # It brings the node's own modules.
        from talos.talosctl.plan.dry_run import draw_disks

        lines = await draw_disks(session, node, request.data)
        results[-1].mode_details = "\n".join((results[-1].mode_details.rstrip(), *lines))
    return results


def show_result(node: str, results: list[ApplyConfiguration], *, is_many: bool) -> None:
    """Warnings, and what the node did or would do."""
    prefix = f"{node}: " if is_many and node else ""
    for result in results:
        for warning in result.warnings:
            console.note(f"{prefix}WARNING: {warning}")
        if result.mode_details:
            console.note(f"{prefix}{result.mode_details.rstrip()}")
