"""How far a pull is, from a node's replies."""

from talos.api.machine.image_pb2 import ImageServicePullLayerProgress as Layer
from talos.fleet.calls import format_progress


def test_progress_counts_bytes_and_layers() -> None:
    layers = [
        Layer(status=Layer.DOWNLOADING, offset=1_000_000, total=4_000_000),
        Layer(status=Layer.ALREADY_EXISTS, offset=2_000_000, total=2_000_000),
        Layer(status=Layer.EXTRACTING, total=3_000_000),
    ]
    assert format_progress(layers) == "6.0 MB of 9.0 MB"
    layers[2].status = Layer.EXTRACT_COMPLETE
    assert format_progress(layers) == "6.0 MB of 9.0 MB, layers unpacked: 1"
