"""Build an interpreter of the workstation: Debian's own, with $wheels, bound to its own loader and libraries.

Such programs run on any host, whatever its libc, because nothing of the host's is loaded.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from bytecode import compile_tree, copy_tree
from fix_wheels import fix_wheels

TOOLS = (
    "usr/bin/mtools",
    "usr/sbin/e2fsck",
    "usr/sbin/mke2fs",
    "usr/sbin/mkfs.vfat",
    "usr/sbin/mkfs.xfs",
    "usr/sbin/sfdisk",
    "usr/sbin/cryptsetup",
    "usr/sbin/lvm",
    "usr/sbin/xfs_growfs",
    "usr/sbin/xfs_repair",
)
"""For disks: of local clusters, and in tests."""
TOOL_LINKS = ("mcopy", "mmd")
"""Names by which mtools is started: each is a program."""
LEFT_OUT = (
    "__pycache__",
    "test",
    "idlelib",
    "turtledemo",
    "config-3.13-x86_64-linux-gnu",
    "sitecustomize.py",
    "EXTERNALLY-MANAGED",
)
MULTIARCH = "usr/lib/x86_64-linux-gnu"
LOADER = f"{MULTIARCH}/ld-linux-x86-64.so.2"


def bind(program: Path, out: Path) -> None:
    """Make an ELF program load this tree's libc and libraries; RPATH, which libraries it opens inherit.

    In this order and one at a time: patchelf 0.18 breaks a program that isn't position independent otherwise.
    """
    program.chmod(0o755)
    for change in (("--force-rpath", "--set-rpath", out / MULTIARCH), ("--set-interpreter", out / LOADER)):
        subprocess.run(["patchelf", *map(str, change), str(program)], check=True)


def is_program(path: Path) -> bool:
    """Whether a file is an ELF program, by its interpreter."""
    with path.open("rb") as stream:
        if stream.read(4) != b"\x7fELF":
            return False
    return (
        subprocess.run(
            ["patchelf", "--print-interpreter", str(path)], capture_output=True, check=False
        ).returncode
        == 0
    )


def main() -> None:
    """Assemble $debian, $wheels and their programs."""
    out, debian = Path(os.environ["out"]), Path(os.environ["debian"])
    (out / "bin").mkdir(parents=True)
    copy_tree(debian / "usr/lib/python3.13", out / "usr/lib/python3.13", leave_out=LEFT_OUT)
    copy_tree(debian / MULTIARCH, out / MULTIARCH)
    (out / "usr/bin").mkdir()
    shutil.copy(debian / "usr/bin/python3.13", out / "usr/bin/python3.13")
    site = out / "usr/lib/python3/dist-packages"
    copy_tree(debian / "usr/lib/python3/dist-packages", site, leave_out=("*dbus*",))
    fix_wheels(site)
    for wheels in map(Path, os.environ["wheels"].split()):
        copy_tree(wheels / "site", site, leave_out=("share",))  # node.js brings its manual
        if (wheels / "bin").exists():
            copy_tree(wheels / "bin", out / "bin")
    (out / "sbin").mkdir()
    for path in TOOLS:
        shutil.copy(debian / path, out / "sbin")
    for name in TOOL_LINKS:
        (out / "sbin" / name).symlink_to("mtools")
    folders = (out / "bin", out / "sbin", *site.rglob("bin"))
    for program in (
        out / "usr/bin/python3.13",
        *(path for folder in folders for path in sorted(folder.iterdir())),
    ):
        if program.is_file() and not program.is_symlink() and is_program(program):
            bind(program, out)
    (out / "bin/python3.13").symlink_to("../usr/bin/python3.13")
    for script in sorted((out / "bin").iterdir()):
        if not script.is_symlink() and script.read_bytes().startswith(b"#!python"):
            script.unlink()  # started as `python -m` instead
    for tree in ("usr/lib/python3.13", "usr/lib/python3/dist-packages"):
        compile_tree(out / tree, runtime=str(out / tree), keep_source=True)
    print(f"workstation interpreter: {sys.version.split()[0]}")


main()
