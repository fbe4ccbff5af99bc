"""Make the extension $out of the packages $debian: a service, tools of the node, or both.

$programs and $tools are copied to $place, a folder in /usr/local, with the libraries that they need. It is
the root of the container of $service, where there is one. $tools are links in /usr/local/sbin, too, and run
outside of the container as well, with the libraries beside them: the node has others, or none. In $folder
are manifest.yaml, the service's definition and maybe `root`, `local` and `etc`, more files for $place,
/usr/local and /etc.
"""

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
    waiting = [*programs, LOADER]
    while waiting:
        name = waiting.pop()
        if not (root / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy((debian / name).resolve(), root / name)
            libraries = (found for found in needed(debian / name) if not found.startswith("ld-"))
            waiting += [f"{LIBRARIES}/{found}" for found in libraries]


def link_tools(local: Path, root: Path, tools: list[str]) -> None:
    """Have tools use the loader and the libraries in ``root``, by its path on the node, and link them."""
    there = Path("/usr/local", root.relative_to(local))
    for tool in tools:
        options = ["--set-interpreter", str(there / LOADER), "--force-rpath"]
        options += ["--set-rpath", str(there / LIBRARIES)]
        subprocess.run(["patchelf", *options, str(root / tool)], check=True)
        link(local / "sbin" / Path(tool).name, Path("..", root.relative_to(local), tool))


def make_container(local: Path, root: Path, tools: list[str]) -> None:
    """Complete the root of a container: links of its usual folders, and tools as on the node."""
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    if tools:
        link(root / "usr/local" / root.relative_to(local), Path("/"))
    for tool in tools:
        link(root / "usr/local/sbin" / Path(tool).name, Path("../../..", tool))


def copy_files(folder: Path, target: Path) -> None:
    """Copy what is in ``folder``, where there is one."""
    for path in folder.rglob("*"):
        if path.is_file():
            copied = target / path.relative_to(folder)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copied)


def link(path: Path, target: Path) -> None:
    """Make a link, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def main() -> None:
    """Lay out the extension: its manifest, programs, the service's definition, and its bill of materials."""
    out, name, service = Path(os.environ["out"]), os.environ["name"], os.environ["service"]
    folder, local = Path(os.environ["folder"]), out / "rootfs/usr/local"
    root = local / os.environ["place"]
    programs, tools = os.environ["programs"].split(), os.environ["tools"].split()
    copy_programs(Path(os.environ["debian"]), root, [*programs, *tools])
    link_tools(local, root, tools)
    copy_files(folder / "root", root)
    copy_files(folder / "local", local)
    copy_files(folder / "etc", out / "rootfs/etc")
    manifest = (folder / "manifest.yaml").read_text(encoding="utf-8")
    (out / "manifest.yaml").write_text(manifest.replace("@version@", os.environ["version"]), encoding="utf-8")
    if service:
        make_container(local, root, tools)
        (local / "etc/containers").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / f"{service}.yaml", local / f"etc/containers/{service}.yaml")
    spdx = local / "share/spdx"
    spdx.mkdir(parents=True)
    environment = {
        **os.environ,
        "base": str(root),
        "product": f"talos-extension-{name}",
        "out": str(spdx / f"{name}.spdx.json"),
    }
    subprocess.run([sys.executable, f"{os.environ['sbom']}/make.py"], env=environment, check=True)


main()
