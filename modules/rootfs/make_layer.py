"""Build our layer of the node's root, /talos: our Python, and what one image has and another lacks."""

import marshal
import os
import shutil
from pathlib import Path

from bundle import make_bundle
from bytecode import copy_tree

LEFT_OUT = ("*.proto", "*.pyi", "*_pb2.py")
"""What no traceback quotes."""
READER = "talos.startup.bundle"
"""What reads bundles can't be in one."""


def module_name(compiled: Path) -> str:
    """The module whose bytecode this is."""
    return ".".join((*compiled.parts[:-2], compiled.name.partition(".")[0])).removesuffix(".__init__")


def main() -> None:
    """Merge the daemons' $packages, bundle their bytecode, add the other files of one image."""
    layer = Path(os.environ["out"], "talos")
    layer.mkdir(parents=True)
    for package in os.environ["packages"].split():
        copy_tree(Path(package, "lib"), layer, leave_out=LEFT_OUT)
    names = [module_name(path.relative_to(layer)) for path in sorted(layer.rglob("__pycache__/*.pyc"))]
    names.remove(READER)
    make_bundle(
        layer / "start.bundle",
        layer,
        names,
        runtime="/usr/lib/talos",
        objects=marshal.loads(Path(os.environ["generated"]).read_bytes()),  # noqa: S302 - the build's own
    )
    for folder in [path for path in layer.rglob("__pycache__") if not any(path.iterdir())]:
        folder.rmdir()
    (layer / "os-release").write_bytes(Path(os.environ["os_release"]).read_bytes())
    boot = layer / "boot"  # what an installer puts on a disk besides the kernel and the initramfs
    boot.mkdir()
    for path in sorted(Path(os.environ["boot"]).iterdir()):
        shutil.copyfile(path, boot / path.name)
    if config := os.environ["config"]:
        shutil.copyfile(config, layer / "config.yaml")
    (layer / "spdx").mkdir()
    (layer / "spdx/talos.spdx.json").write_bytes(Path(os.environ["sbom"]).read_bytes())


main()
