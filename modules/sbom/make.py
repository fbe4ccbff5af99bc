"""Write the bill of materials of a composition, and the licences' texts beside it.

$product and $version name it. What it is made of: of the packages $debs those of which a file is in the
folder $base; $wheels; the Go modules of $sets in the Go lock, whose archives are $modules; and $parts,
"NAME=PACKAGE=LICENSE" words of what is made of a package of the Debian lock that is no input here.

Without $part_debs, $out is the document. With it, the packages in which the parts' texts are, $out is a
folder with the document and the texts, a file for each package.
"""

import hashlib
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from licenses import of_copyright, of_module, of_wheel, read_copyrights
from spdx import describe, describe_locked, make_document

AR_MAGIC = b"!<arch>\n"
AR_HEADER = 60
MERGED = {"ca-certificates": "its certificates are one file in the image"}
"""Packages whose files are in the image under no name of their own."""
STATED = (
    dict.fromkeys(("libpython3.13-minimal", "libpython3.13-stdlib", "python3.13-minimal"), "PSF-2.0")
    | dict.fromkeys(("libgcc-s1", "libstdc++6"), "GPL-3.0-or-later WITH GCC-exception-3.1")
    | {"nfs-common": "GPL-2.0-or-later AND BSD-3-Clause"}
)
"""Licences of what has a copyright file that only people can read."""
TOOLCHAIN = "golang.org/toolchain@v0.0.1-go"


def open_data(deb: BinaryIO) -> tarfile.TarFile:
    """The archive of a Debian package's files."""
    if deb.read(len(AR_MAGIC)) != AR_MAGIC:
        raise SystemExit(f"{deb.name} is no Debian package")
    while header := deb.read(AR_HEADER):
        name, size = header[:16].decode().strip(), int(header[48:58])
        if name.startswith("data.tar"):
            return tarfile.open(fileobj=deb, mode="r|*")
        deb.seek(size + size % 2, os.SEEK_CUR)
    raise SystemExit(f"{deb.name} has no files")


def list_files(deb: Path) -> Iterator[str]:
    """The paths of a package's files and links below the merged /usr; what is in /etc is ours."""
    with deb.open("rb") as file, open_data(file) as archive:
        for member in archive:
            if not member.isdir():
                path = member.name.removeprefix("./")
                yield path if path.startswith("usr/") else f"usr/{path}"


def list_base(base: Path) -> frozenset[str]:
    """The paths in the image's base; of bytecode, those of its source."""
    paths = (path.relative_to(base) for path in base.rglob("*") if not path.is_dir())
    return frozenset(str(path.with_suffix(".py") if path.suffix == ".pyc" else path) for path in paths)


def store_name(name: str) -> str:
    """A file's name in the store, as pkgs/fetch/locks.py makes it."""
    return name.replace("%3a", "-").replace("~", "-")


def read_all_copyrights(debs: list[Path]) -> dict[str, str]:
    """The copyright files of packages, by package, where one may be another's."""
    found: dict[str, str] = {}
    for deb in debs:
        with deb.open("rb") as file, open_data(file) as archive:
            found |= read_copyrights(archive)
    for name, text in found.items():
        seen = {name}
        while text.startswith("-> ") and (target := text.removeprefix("-> ")) not in seen:
            seen.add(target)
            text = found.get(target, "")
        found[name] = "" if text.startswith("-> ") else text
    return found


class Bill:
    """What was found, and the texts of its licences by package."""

    def __init__(self) -> None:
        self.packages: list[dict[str, Any]] = []
        self.texts: dict[str, str] = {}

    def add_debian(
        self, lock: dict[str, Any], debs: list[Path], base: frozenset[str], whole: frozenset[Path]
    ) -> None:
        """Add the Debian packages of which a file is in the image, and those that are ``whole``."""
        by_file = {store_name(entry["file"]): (name, entry) for name, entry in lock["packages"].items()}
        copyrights = read_all_copyrights(debs)
        for deb in debs:
            name, entry = by_file[deb.name.split("-", 1)[1]]
            if name in MERGED or deb in whole or any(path in base for path in list_files(deb)):
                self.texts[name] = copyrights.get(name, "")
                found = STATED.get(name) or of_copyright(self.texts[name])
                self.packages.append(describe_locked(name, entry, found))

    def add_wheels(self, wheels: list[Path]) -> None:
        """Add wheels, all of which are in the image."""
        for wheel in wheels:
            name, version = wheel.name.split("-", 1)[1].split("-")[:2]
            name = name.lower().replace("_", "-")
            found, self.texts[name] = of_wheel(wheel)
            purl = f"pkg:pypi/{name}@{quote(version, safe='')}"
            sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
            self.packages.append(describe(name, version, purl, sha256=sha256, license=found, kind="pypi-"))

    def add_go(self, lock: dict[str, Any], sets: list[str], archives: list[Path]) -> None:
        """Add the modules that Go programs are compiled from, and the compiler's own library."""
        by_name = {path.name.partition("-")[2]: path for path in archives}
        names = {name for each in sets for name in lock["sets"][each]}
        for name in sorted(names):
            path, version = name.split("@")
            purl = f"pkg:golang/{quote(path)}@{quote(version, safe='')}"
            sha256 = lock["modules"][name]["zip"]
            archive = by_name[store_name(f"{path}-{version}.zip".replace("/", "-"))]
            found, self.texts[f"{path}@{version}".replace("/", "_")] = of_module(archive)
            self.packages.append(describe(path, version, purl, sha256=sha256, license=found, kind="go-"))
        if names:
            (toolchain,) = lock["sets"]["toolchain"]
            version = toolchain.removeprefix(TOOLCHAIN).partition(".linux")[0]
            purl = f"pkg:golang/stdlib@{version}"
            self.packages.append(describe("stdlib", version, purl, license="BSD-3-Clause", kind="go-"))

    def add_parts(self, lock: dict[str, Any], words: list[str], debs: list[Path]) -> None:
        """Add what is made of packages of the lock. Where there are ``debs``, each part's text is in them."""
        copyrights = read_all_copyrights(debs)
        for word in words:
            shown, name, found = word.split("=")
            self.packages.append(describe_locked(name, lock["packages"][name], found, shown))
            self.texts[shown] = copyrights.get(name, "")
            if debs and not self.texts[shown]:
                raise SystemExit(f"$part_debs: no copyright file of {name}, of which {shown} is made")


def main() -> None:
    """Write $out."""
    lock = json.loads(Path(os.environ["lock"]).read_text(encoding="utf-8"))
    bill = Bill()
    debs = list(dict.fromkeys(map(Path, os.environ["debs"].split())))
    whole = frozenset(map(Path, os.environ.get("whole", "").split()))
    bill.add_debian(lock, debs, list_base(Path(os.environ["base"])), whole)
    bill.add_wheels([Path(path) for path in os.environ.get("wheels", "").split()])
    if sets := os.environ.get("sets", "").split():
        modules = (
            Path(os.environ["modulesPath"]).read_text()
            if "modulesPath" in os.environ
            else os.environ["modules"]
        )
        archives = [Path(path) for path in modules.split()]
        bill.add_go(json.loads(Path(os.environ["go_lock"]).read_text(encoding="utf-8")), sets, archives)
    part_debs = [Path(path) for path in os.environ.get("part_debs", "").split()]
    bill.add_parts(lock, os.environ.get("parts", "").split(), part_debs)
    product, version = os.environ["product"], os.environ["version"]
    text = json.dumps(make_document(product, version, bill.packages), indent=2, sort_keys=True) + "\n"
    out = Path(os.environ["out"])
    if not part_debs:
        out.write_text(text, encoding="utf-8")
        return
    (out / "licenses").mkdir(parents=True)
    (out / f"{product.lower()}.spdx.json").write_text(text, encoding="utf-8")
    for name, found in bill.texts.items():
        if found:
            (out / "licenses" / f"{name}.txt").write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
