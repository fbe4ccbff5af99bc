"""Make the extension $out: the service $service, with $programs of $debian and the files in $folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from elf import needed

LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = "usr/lib64/ld-linux-x86-64.so.2"


def copy_programs(debian: Path, root: Path, programs: list[str]) -> None:
    """Copy programs and the libraries that they need, each to where the loader looks for it."""
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    waiting = [*programs, LOADER]
    while waiting:
        name = waiting.pop()
        if not (root / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy((debian / name).resolve(), root / name)
            libraries = (found for found in needed(debian / name) if not found.startswith("ld-"))
            waiting += [f"{LIBRARIES}/{found}" for found in libraries]


def main() -> None:
    """Lay out the extension: its manifest, the service's definition and root, and its bill of materials."""
    out, service, folder = Path(os.environ["out"]), os.environ["service"], Path(os.environ["folder"])
    local = out / "rootfs/usr/local"
    root = local / "lib/containers" / service
    copy_programs(Path(os.environ["debian"]), root, os.environ["programs"].split())
    manifest = (folder / "manifest.yaml").read_text(encoding="utf-8")
    (out / "manifest.yaml").write_text(manifest.replace("@version@", os.environ["version"]), encoding="utf-8")
    (local / "etc/containers").mkdir(parents=True)
    shutil.copyfile(folder / f"{service}.yaml", local / f"etc/containers/{service}.yaml")
    spdx = local / "share/spdx"
    spdx.mkdir(parents=True)
    environment = {
        **os.environ,
        "base": str(root),
        "product": f"talos-extension-{service}",
        "out": str(spdx / f"{service}.spdx.json"),
    }
    subprocess.run([sys.executable, f"{os.environ['sbom']}/make.py"], env=environment, check=True)


main()
