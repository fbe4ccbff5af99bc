"""Make the extension $out: $folders below /usr/lib/firmware of $debian, $manifest, a bill of materials."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SIGNATURES = ".asc"
"""Of what microcode is shipped with: the packages were checked already."""


def main() -> None:
    """Lay out the extension."""
    out, name = Path(os.environ["out"]), os.environ["name"]
    rootfs = out / "rootfs"
    for folder in os.environ["folders"].split():
        source = Path(os.environ["debian"], "usr/lib/firmware", folder)
        target = rootfs / "usr/lib/firmware" / folder
        target.mkdir(parents=True)
        for path in sorted(source.iterdir()):
            if path.is_file() and path.suffix != SIGNATURES:
                shutil.copyfile(path, target / path.name)
    manifest = Path(os.environ["manifest"]).read_text(encoding="utf-8")
    (out / "manifest.yaml").write_text(manifest.replace("@version@", os.environ["version"]), encoding="utf-8")
    document = f"{name}.spdx.json"
    environment = {
        **os.environ,
        "base": str(rootfs),
        "product": f"talos-extension-{name}",
        "out": str(out / document),
    }
    subprocess.run([sys.executable, f"{os.environ['sbom']}/make.py"], env=environment, check=True)
    spdx = rootfs / "usr/local/share/spdx"
    spdx.mkdir(parents=True)
    (out / document).rename(spdx / document)


main()
