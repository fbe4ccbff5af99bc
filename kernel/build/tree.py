"""What both steps of the kernel's build share: the tools' names, the source tree, make."""

import os
import subprocess
from pathlib import Path

# Everything that would otherwise tell one build from another.
IDENTITY = (
    "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:01 UTC 1970",
    "KBUILD_BUILD_USER=talos",
    "KBUILD_BUILD_HOST=talos",
    "KBUILD_BUILD_VERSION=1",
)
LLVM = "-19"

# Names that Debian gives by update-alternatives, which does not run in a build root.
ALTERNATIVES = {"awk": "gawk", "cc": f"clang{LLVM}", "python3": "python3.13"}


def add_alternatives() -> None:
    """Put a folder with the missing names in front of PATH."""
    folder = Path.cwd() / "bin"
    folder.mkdir()
    for name, program in ALTERNATIVES.items():
        (folder / name).symlink_to(Path("/usr/bin") / program)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def unpack_source() -> Path:
    """Unpack the tarball of $source (an unpacked Debian package) and return the tree."""
    (tarball,) = Path(os.environ["source"], "usr/src").glob("linux-source-*.tar.xz")
    subprocess.run(["tar", "-xf", tarball], check=True)
    (tree,) = Path.cwd().glob("linux-source-*/")
    return tree


def run_make(tree: Path, *targets: str) -> None:
    """Run the kernel's make for x86-64 with clang."""
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    subprocess.run(
        ["make", "-s", "-C", tree, jobs, "ARCH=x86_64", f"LLVM={LLVM}", *IDENTITY, *targets], check=True
    )
