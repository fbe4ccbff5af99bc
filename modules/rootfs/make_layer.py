"""Build the layer of the node's root that is ours: /talos, with our Python and the release's identity."""

import os
from pathlib import Path

from bundle import make_bundle
from bytecode import copy_tree

READER = "talos.system.bundle"
"""What reads bundles can't be in one."""


def main() -> None:
    """Merge the $folders, add os-release."""
    layer = Path(os.environ["out"], "talos")
    layer.mkdir(parents=True)
    for folder in os.environ["folders"].split():
        copy_tree(Path(folder), layer)
    sources = (path.relative_to(layer).with_suffix("") for path in sorted(layer.rglob("*.py")))
    names = [".".join(path.parts).removesuffix(".__init__") for path in sources]
    names.remove(READER)
    make_bundle(layer / "start.bundle", layer, names, runtime="/usr/lib/talos")
    (layer / "os-release").write_bytes(Path(os.environ["os_release"]).read_bytes())


main()
