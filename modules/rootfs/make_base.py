"""Build the base of the node's root: everything but our own Python, whose edits leave this alone."""

import fnmatch
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import elf
from bundle import make_bundle
from bytecode import compile_tree, copy_tree
from fix_wheels import fix_cryptography

LIBRARIES = "usr/lib/x86_64-linux-gnu"
STDLIB = "usr/lib/python3.13"
WHEELS = "usr/lib/python3/dist-packages"
CFFI = "_cffi_backend.cpython-313-x86_64-linux-gnu.so"  # what cryptography reaches OpenSSL through
MERGED = ("bin", "sbin", "lib", "lib64")
COPIED_ELSEWHERE = ("ld-linux-x86-64.so.2",)
SHELLS_AND_THE_LIKE = ("sh", "*ash", "busybox", "perl*", "cat", "ls", "env")
TOOLS_OF_A_DISTRIBUTION = ("apt*", "dpkg*", "pip*", "*.a", "ctr", "crictl")

CERTIFICATES_TITLE = "##\n## Bundle of CA Root Certificates\n##\n"
"""As upstream's file begins; clients look for it where the image's own authorities are wanted."""


def make_skeleton(out: Path, contents: dict[str, Any]) -> None:
    """Make the folders, the empty files generated ones are bound over, and the links."""
    for name in MERGED:
        (out / "usr" / name).mkdir(parents=True)
        (out / name).symlink_to(f"usr/{name}")
    for name in contents["mount_points"]["folders"]:
        (out / name).mkdir(parents=True, exist_ok=True)
    for name in contents["mount_points"]["files"]:
        (out / name).touch()
    for name, target in contents["links"].items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).symlink_to(target)


def copy_programs(out: Path, debian: Path, compiled: list[Path], contents: dict[str, Any]) -> None:
    """Copy what the contents name, and the loader under the name that programs have."""
    sources = {name: debian / name for name in contents["programs"]}
    built = {path.name: path for folder in compiled for path in (folder / "bin").iterdir()}
    sources |= {name: built[Path(name).name] for name in contents["compiled"]}
    for name, source in sources.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, out / name)
    for name in contents["folders"]:
        copy_tree(debian / name, out / name)
    shutil.copy(debian / LIBRARIES / "ld-linux-x86-64.so.2", out / "usr/lib64/ld-linux-x86-64.so.2")


def copy_python(out: Path, debian: Path, wheels: Path, contents: dict[str, Any]) -> None:
    """Copy what is left of the standard library and the wheels, as bytecode only."""
    rules = contents["python"]
    copy_tree(debian / STDLIB, out / STDLIB, leave_out=tuple(rules["without"]))
    leave_out = tuple(rules["wheels_without"])
    copy_tree(wheels / "site", out / WHEELS, leave_out=leave_out)
    for name in ("cryptography", "OpenSSL"):
        copy_tree(debian / WHEELS / name, out / WHEELS / name, leave_out=leave_out)
    fix_cryptography(out / WHEELS)
    shutil.copy(debian / WHEELS / CFFI, out / WHEELS / CFFI)
    for library in sorted((out / WHEELS).rglob("*.so")):
        subprocess.run(["strip", str(library)], check=True)  # Debian's own are stripped, some wheels are not
    names = [line for line in Path(os.environ["start"]).read_text().splitlines() if not line.startswith("#")]
    for tree in (STDLIB, WHEELS):
        compile_tree(out / tree, runtime=f"/{tree}", keep_source=False)
        make_bundle(out / tree / "start.bundle", out / tree, names, runtime=f"/{tree}")


def elf_files(out: Path) -> Iterator[Path]:
    """Walk over every ELF file of the tree."""
    return (
        path
        for path in sorted(out.rglob("*"))
        if path.is_file() and not path.is_symlink() and elf.is_elf(path)
    )


def copy_libraries(out: Path, debian: Path, contents: dict[str, Any]) -> None:
    """Follow what the ELF files need until nothing is missing."""
    folder = out / LIBRARIES
    folder.mkdir(parents=True, exist_ok=True)
    bundled = {path.name for path in out.rglob("*.so*")}
    wanted = [*contents["libraries"], *(name for path in elf_files(out) for name in elf.needed(path))]
    while wanted:
        name = wanted.pop()
        if name in COPIED_ELSEWHERE or name in bundled or (folder / name).exists():
            continue
        source = debian / LIBRARIES / name
        if not source.exists():
            raise SystemExit(f"{name} is needed and no pinned package has it; see pkgs/roots.toml")
        shutil.copy(source.resolve(), folder / name)
        wanted += elf.needed(folder / name)


def make_certificates(out: Path, debian: Path) -> None:
    """Write the CA bundle, which ca-certificates' maintainer script would."""
    parts = sorted((debian / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    folder = out / "etc/ssl/certs"
    certificates = "".join(part.read_text().strip() + "\n" for part in parts)
    (folder / "ca-certificates.crt").write_text(f"{CERTIFICATES_TITLE}\n{certificates}")
    (folder / "ca-certificates").symlink_to("ca-certificates.crt")
    (out / "etc/ssl/cert.pem").symlink_to(
        "certs/ca-certificates.crt"
    )  # OpenSSL's own default is below /usr/lib/ssl
    (out / "usr/lib/ssl").mkdir()
    (out / "usr/lib/ssl/cert.pem").symlink_to("/etc/ssl/certs/ca-certificates.crt")
    (out / "usr/lib/ssl/certs").symlink_to("/etc/ssl/certs")


def copy_pci_names(out: Path, debian: Path) -> None:
    """Copy the names of PCI devices, without subsystems, which no resource has: half of the list."""
    name = "usr/share/misc/pci.ids"
    lines = (debian / name).read_text(encoding="utf-8").splitlines(keepends=True)
    kept = (line for line in lines if line.strip() and not line.startswith(("#", "\t\t")))
    text = "".join(["# From Debian's pci.ids, without subsystems.\n", *kept])
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text(text, encoding="utf-8")


def check_absent(out: Path) -> None:
    """Hold the promise of the product: nothing that could serve as a shell or a package manager."""
    found = [
        path.relative_to(out)
        for folder in (out / "usr/bin", out / "usr/sbin", out / LIBRARIES)
        for path in sorted(folder.iterdir())
        if any(
            fnmatch.fnmatch(path.name, pattern) for pattern in SHELLS_AND_THE_LIKE + TOOLS_OF_A_DISTRIBUTION
        )
    ]
    if found:
        raise SystemExit(f"these must not be in the image: {', '.join(map(str, found))}")


def make_loader_cache(out: Path) -> None:
    """Write /etc/ld.so.cache; the search path names the one folder that libraries are in."""
    (out / "etc/ld.so.conf").write_text(f"/{LIBRARIES}\n")
    subprocess.run(["ldconfig", "-X", "-r", str(out)], check=True)
    shutil.rmtree(out / "var/cache", ignore_errors=True)  # its own notes about files' times


def main() -> None:
    """Assemble $out from $debian, $wheels, $compiled, $pci_ids and $files."""
    out, debian = Path(os.environ["out"]), Path(os.environ["debian"])
    contents = tomllib.loads(Path(os.environ["contents"]).read_text())
    make_skeleton(out, contents)
    copy_programs(out, debian, [Path(path) for path in os.environ["compiled"].split()], contents)
    copy_python(out, debian, Path(os.environ["wheels"]), contents)
    copy_libraries(out, debian, contents)
    make_certificates(out, debian)
    copy_pci_names(out, Path(os.environ["pci_ids"]))
    copy_tree(Path(os.environ["files"]), out)
    check_absent(out)
    make_loader_cache(out)


main()
