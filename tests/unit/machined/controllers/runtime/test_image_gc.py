"""Images that nothing uses."""

from talos.api.containerd.descriptor_pb2 import Descriptor
from talos.api.containerd.images_pb2 import Image
from talos.machined.controllers.runtime.image_gc import MIN_AGE, find_unused

NOW = 1_000_000.0


def make_image(name: str, digest: str, *, age: float, updated: float | None = None) -> Image:
    image = Image(name=name, target=Descriptor(digest=digest))
    image.created_at.seconds = int(NOW - age)
    if updated is not None:
        image.updated_at.seconds = int(NOW - updated)
    return image


def test_old_images_that_nothing_uses() -> None:
    old, young = 2 * MIN_AGE, MIN_AGE / 2
    images = [
        make_image("docker.io/library/etcd:1", "used", age=old),
        make_image("docker.io/library/other-name:1", "used", age=old),
        make_image("example.org/old:1", "a", age=old),
        make_image("example.org/young:1", "b", age=young),
        make_image("example.org/pulled-again:1", "c", age=old, updated=young),
    ]
    assert find_unused(images, ["etcd:1", "not a reference", "example.org/not-there:1"], NOW) == [
        "example.org/old:1"
    ]
    assert find_unused([], [], NOW) == []
