"""Build the layer of the node's root that is ours: /talos, with our Python and the release's identity."""

import os
from pathlib import Path

from bytecode import copy_tree


def main() -> None:
    """Merge the $folders, add os-release."""
    layer = Path(os.environ["out"], "talos")
    layer.mkdir(parents=True)
    for folder in os.environ["folders"].split():
        copy_tree(Path(folder), layer)
    (layer / "os-release").write_bytes(Path(os.environ["os_release"]).read_bytes())


main()
