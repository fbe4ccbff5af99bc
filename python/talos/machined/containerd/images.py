"""Pulling images."""

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from talos.api.containerd import descriptor_pb2, transfer_pb2, transfer_types_pb2
from talos.machined.containerd.client import SNAPSHOTTER, Containerd
from talos.machined.containerd.manifest import ARCHITECTURE, OS
from talos.machined.containerd.store import Image, find_image
from talos.resource.state import State
from talos.system.errors import UserError

PULL_LIMIT = 30 * 60.0


async def pull(containerd: Containerd, name: str, state: State) -> Image:
    """Have containerd fetch and unpack an image from its registry."""
    del state
    platform = descriptor_pb2.Platform(os=OS, architecture=ARCHITECTURE)
    registry = transfer_types_pb2.OCIRegistry(reference=name)
    unpack = transfer_types_pb2.UnpackConfiguration(platform=platform, snapshotter=SNAPSHOTTER)
    store = transfer_types_pb2.ImageStore(name=name, platforms=[platform], unpacks=[unpack])
    request = transfer_pb2.TransferRequest(source=_pack(registry), destination=_pack(store))
    await containerd.call("transfer.v1.Transfer/Transfer", request, Empty, timeout=PULL_LIMIT)
    image = await find_image(containerd, name)
    if image is None:
        raise UserError("it was pulled, but is not complete", where=f"image {name}")
    return image


def _pack(message: Message) -> AnyMessage:
    # containerd's type URLs are bare names.
    return AnyMessage(type_url=message.DESCRIPTOR.full_name, value=message.SerializeToString())
