"""The messages of gRPC's interop suite, compiled from grpc_testing.proto when a test wants them."""

import functools
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

SOURCE = Path(__file__).with_name("grpc_testing.proto")

type Class = Any
"""A message's class, whose fields no type checker finds."""


@functools.cache
def _make_pool() -> DescriptorPool:
    with tempfile.NamedTemporaryFile() as out:
        arguments = ["protoc", f"-I{SOURCE.parent}", f"--descriptor_set_out={out.name}", SOURCE.name]
        code: int = protoc.main(arguments)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        assert code == 0
        files = FileDescriptorSet.FromString(Path(out.name).read_bytes())
    pool = DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def message(name: str) -> Class:
    """The class of one message of the package."""
    return GetMessageClass(_make_pool().FindMessageTypeByName(f"grpc.testing.{name}"))
