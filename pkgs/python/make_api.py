"""Generate the modules of the .proto files in $source, which is python/talos/api, into $out/talos/api."""

import os
import shutil
import sys
from pathlib import Path

from grpc_tools import protoc


def main() -> None:
    """Run protoc over a copy, because imports are spelled from the import root."""
    root = Path("/build/root")
    shutil.copytree(os.environ["source"], root / "talos" / "api")
    out = os.environ["out"]
    Path(out).mkdir()
    protos = sorted(str(path) for path in root.rglob("*.proto"))
    include = str(Path(protoc.__file__).parent / "_proto")
    sys.exit(
        protoc.main(
            ["protoc", f"-I{root}", f"-I{include}", f"--python_out={out}", f"--pyi_out={out}", *protos]
        )
    )


main()
