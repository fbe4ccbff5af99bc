"""Specs as the YAML that ``talosctl get`` shows, and resources as they are on the wire."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from google.protobuf.message import DecodeError, Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from talos.api.cosi import resource_pb2
from talos.api.cosi.meta_pb2 import ResourceDefinitionSpec
from talos.api.definitions.k8s_pb2 import ManifestSpec
from talos.api.resource.config_pb2 import MachineConfigSpec, MachineTypeSpec
from talos.api.resource.device_config_pb2 import DeviceConfigSpecSpec
from talos.resource.kind import Kind
from talos.resource.resource import EMPTY, Metadata, Phase, Resource
from talos.resource.yaml.enums import enum_texts
from talos.resource.yaml.plan import message_to_value
from talos.resource.yaml.text import to_yaml
from talos.resource.yaml.values import struct_to_value
from talos.system.errors import UserError

YAML_SPEC_ANNOTATION = "talos.dev/yaml-spec"
"""The value "1" marks a spec whose YAML is one string, itself holding YAML."""

PLAIN_SPECS: Mapping[str, tuple[str, ...]] = {"talos-specs": ("proto",)}
"""Call metadata that requests specs without YAML; only this system's programs send it."""

_MAX_DEFINITIONS = 256
_NANOS = 1_000_000_000
_UNDEFINED = "undefined"


def spec_to_yaml(kind: Kind[Message], message: Message) -> str:
    """A spec as YAML, with the keys and texts of the tables."""
    match message:
        case MachineConfigSpec():
            return to_yaml(message.yaml_marshalled.decode())
        case MachineTypeSpec():
            return to_yaml(enum_texts("resource.config.MachineType").get(message.machine_type))
        case DeviceConfigSpecSpec():
            return message.yaml_marshalled.decode()
        case ManifestSpec():  # as upstream, a list and no mapping
            return to_yaml([struct_to_value(item.object) for item in message.items])
        case Struct():
            return to_yaml(struct_to_value(message))
        case ResourceDefinitionSpec():
            return _definition_to_yaml(message.SerializeToString())
        case _:
            pass
    if not isinstance(message, kind.spec):
        raise TypeError(
            f"the spec of {kind.type} is {kind.spec.DESCRIPTOR.full_name}, not {message.DESCRIPTOR.full_name}"
        )
    return to_yaml(message_to_value(message))


@lru_cache(_MAX_DEFINITIONS)
def _definition_to_yaml(data: bytes) -> str:
    """The YAML of a kind's definition, kept: each ``get`` of a client reads all 200 of them first."""
    return to_yaml(message_to_value(ResourceDefinitionSpec.FromString(data)))


def resource_to_proto(
    kind: Kind[Message], resource: Resource[Message], *, with_yaml: bool = True
) -> resource_pb2.Resource:
    """A resource for the wire; a tombstone (version 0) goes without its spec.

    ``with_yaml`` false leaves the YAML out, for readers that are this system's programs.
    """
    return _to_proto(kind, resource, with_spec=resource.metadata.version > 0, with_yaml=with_yaml)


def new_resource_to_proto(kind: Kind[Message], resource: Resource[Message]) -> resource_pb2.Resource:
    """A resource to be created, which has no version yet but a spec."""
    return _to_proto(kind, resource, with_spec=True, with_yaml=False)


def _to_proto(
    kind: Kind[Message], resource: Resource[Message], *, with_spec: bool, with_yaml: bool
) -> resource_pb2.Resource:
    metadata = resource.metadata
    annotations = dict(metadata.annotations)
    spec = resource_pb2.Spec()
    if with_spec:
        if isinstance(resource.spec, MachineConfigSpec):
            annotations[YAML_SPEC_ANNOTATION] = "1"
        if not kind.is_yaml_only:
            spec.proto_spec = resource.spec.SerializeToString()
        if with_yaml or kind.is_yaml_only:
            spec.yaml_spec = spec_to_yaml(kind, resource.spec)
    return resource_pb2.Resource(
        metadata=resource_pb2.Metadata(
            namespace=metadata.namespace,
            type=metadata.type,
            id=metadata.id,
            version=str(metadata.version) if metadata.version else _UNDEFINED,
            owner=metadata.owner,
            phase=metadata.phase.value,
            created=_to_timestamp(metadata.created),
            updated=_to_timestamp(metadata.updated),
            finalizers=metadata.finalizers,
            annotations=annotations,
            labels=metadata.labels,
        ),
        spec=spec,
    )


def resource_from_proto[S: Message](kind: Kind[S], message: resource_pb2.Resource) -> Resource[S]:
    """A resource from the wire; UserError when it is not one of this kind."""
    given = message.metadata
    where = f"{kind.type}({given.namespace}/{given.id})"
    if given.type != kind.type:
        raise UserError(f'the type is "{given.type}"', where=where)
    spec = kind.spec()
    try:
        if isinstance(spec, Struct):
            spec.update(_parse_mapping(message.spec.yaml_spec))
        else:
            spec.ParseFromString(message.spec.proto_spec)
        phase = Phase(given.phase) if given.phase else Phase.RUNNING
        version = 0 if given.version in ("", _UNDEFINED) else int(given.version)
    except (DecodeError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"no valid resource: {error}", where=where) from error
    annotations = dict(given.annotations)
    if isinstance(spec, MachineConfigSpec):
        annotations.pop(YAML_SPEC_ANNOTATION, None)
    metadata = Metadata(
        namespace=given.namespace,
        type=given.type,
        id=given.id,
        version=version,
        owner=given.owner,
        phase=phase,
        created=_from_timestamp(given.created),
        updated=_from_timestamp(given.updated),
        finalizers=tuple(given.finalizers),
        labels=dict(given.labels) or EMPTY,
        annotations=annotations or EMPTY,
    )
    return Resource(metadata=metadata, spec=spec)


def _parse_mapping(text: str) -> dict[str, Any]:
    """The mapping that a text stands for; ValueError, also for aliases: few could stand for many nodes."""
    # Rare, and the loader takes 30 ms to import.
    import yaml

    reader: Any = yaml  # its annotations are partial
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in reader.parse(text, Loader=yaml.SafeLoader)):
            raise ValueError("the spec has aliases")
        value = reader.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"the spec is no YAML: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("the spec is no mapping")  # noqa: TRY004 - it is the caller's mistake
    return cast("dict[str, Any]", value)


def _to_timestamp(nanoseconds: int) -> Timestamp | None:
    seconds, nanos = divmod(nanoseconds, _NANOS)
    return Timestamp(seconds=seconds, nanos=nanos) if nanoseconds else None


def _from_timestamp(time: Timestamp) -> int:
    return time.seconds * _NANOS + time.nanos
