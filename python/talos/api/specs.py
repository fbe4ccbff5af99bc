"""The specs of resources that a node sends."""

from google.protobuf.message import DecodeError, Message

from talos.api.cosi.resource_pb2 import Resource
from talos.api.rpc import Code, RpcError


def parse_spec[S: Message](spec: type[S], resource: Resource) -> S:
    """The spec of a resource; RpcError when it is none of this type."""
    try:
        return spec.FromString(resource.spec.proto_spec)
    except DecodeError:
        metadata = resource.metadata
        text = f"the spec of the node's {metadata.type} {metadata.id} is no {spec.DESCRIPTOR.full_name}"
        raise RpcError(Code.INTERNAL, text) from None
