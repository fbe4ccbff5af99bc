"""Write the bill of materials of an image or an extension: an SPDX 2.3 document of the packages in it.

A function of the locks and of what is in the base; no time, no place of the build gets in.
"""

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

AR_MAGIC = b"!<arch>\n"
AR_HEADER = 60
MERGED = {"ca-certificates": "its certificates are one file in the image"}
"""Packages whose files are in the image under no name of their own."""
WHEEL = re.compile(r"^([^=#\s]+)==(\S+) --hash=sha256:([0-9a-f]+)", re.MULTILINE)
CREATED = "1970-01-01T00:00:00Z"


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


def describe(name: str, version: str, purl: str, sha256: str = "") -> dict[str, Any]:
    """One package of the document."""
    package: dict[str, Any] = {
        "SPDXID": f"SPDXRef-Package-{re.sub('[^A-Za-z0-9.-]', '-', name)}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
        ],
    }
    if sha256:
        package["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
    return package


def describe_debian(lock: dict[str, Any], debs: list[Path], base: frozenset[str]) -> Iterator[dict[str, Any]]:
    """The Debian packages of which a file is in the image."""
    by_file = {store_name(entry["file"]): (name, entry) for name, entry in lock["packages"].items()}
    for deb in debs:
        name, entry = by_file[deb.name.split("-", 1)[1]]
        if name in MERGED or any(path in base for path in list_files(deb)):
            version = entry["version"]
            query = f"arch={entry['arch']}&distro={entry['suite']}"
            purl = f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?{query}"
            yield describe(name, version, purl, entry["sha256"])


def describe_wheels(text: str) -> Iterator[dict[str, Any]]:
    """The wheels of the image's set, all of which are in it."""
    for name, version, sha256 in WHEEL.findall(text):
        yield describe(name, version, f"pkg:pypi/{name}@{quote(version, safe='')}", sha256)


def make_document(product: str, version: str, packages: list[dict[str, Any]]) -> dict[str, Any]:
    """The document, with the product itself as the package that contains the others."""
    name = product.lower()
    own = describe(product, version, f"pkg:generic/{name}@{quote(version, safe='')}")
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    document = "SPDXRef-DOCUMENT"
    links = [(document, "DESCRIBES", own["SPDXID"])]
    links += [(own["SPDXID"], "CONTAINS", package["SPDXID"]) for package in packages]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": document,
        "name": f"{name}-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{version}-{digest}",
        "creationInfo": {"created": CREATED, "creators": ["Tool: talos-sbom"]},
        "packages": [own, *packages],
        "relationships": [
            {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": related}
            for element, kind, related in links
        ],
    }


def main() -> None:
    """Write $out about $product from $base, $debs and the locks."""
    lock = json.loads(Path(os.environ["lock"]).read_text(encoding="utf-8"))
    debs = [Path(path) for path in os.environ["debs"].split()]
    base = list_base(Path(os.environ["base"]))
    packages = [*describe_debian(lock, debs, base)]
    if "wheels_lock" in os.environ:
        packages += describe_wheels(Path(os.environ["wheels_lock"]).read_text(encoding="utf-8"))
    packages.sort(key=lambda package: package["name"])
    document = make_document(os.environ["product"], os.environ["version"], packages)
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    Path(os.environ["out"]).write_text(text, encoding="utf-8")


main()
