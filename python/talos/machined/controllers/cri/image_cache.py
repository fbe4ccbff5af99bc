"""ImageCacheConfig: whether images cached on the node are served."""

from talos.api.definitions import enums_pb2 as enums
from talos.api.definitions.cri_pb2 import ImageCacheConfigSpec
from talos.resource import ids, kinds
from talos.resource.controller.controller import Controller, ControllerRuntime, Output


class ImageCacheConfigController(Controller):
    """Writes the one resource: images of this version bring no cache, so it is off in every config."""

    name = "cri.ImageCacheConfigController"
    outputs = (Output(kinds.IMAGE_CACHE_CONFIG),)

    async def run(self, runtime: ControllerRuntime) -> None:
        """Write it once."""
        spec = ImageCacheConfigSpec(
            status=enums.IMAGE_CACHE_STATUS_DISABLED, copy_status=enums.IMAGE_CACHE_COPY_STATUS_SKIPPED
        )
        await runtime.put(*ids.IMAGE_CACHE_CONFIG, spec)
