"""An SPDX 2.3 document. A function of what is put in: no time, no place of the build gets in."""

import hashlib
import json
import re
from typing import Any
from urllib.parse import quote

CREATED = "1970-01-01T00:00:00Z"
CPES = {
    "busybox": "busybox:busybox",
    "github.com/containerd/containerd/v2": "linuxfoundation:containerd",
    "github.com/coredns/coredns": "coredns.io:coredns",
    "github.com/opencontainers/runc": "linuxfoundation:runc",
    "go.etcd.io/etcd/server/v3": "etcd:etcd",
    "grub": "gnu:grub2",
    "iptables": "netfilter:iptables",
    "k8s.io/kubernetes": "kubernetes:kubernetes",
    "libc6": "gnu:glibc",
    "libexpat1": "libexpat_project:libexpat",
    "liblzma5": "tukaani:xz",
    "libsqlite3-0": "sqlite:sqlite",
    "libssl3t64": "openssl:openssl",
    "libzstd1": "facebook:zstandard",
    "linux": "linux:linux_kernel",
    "musl": "musl-libc:musl",
    "nftables": "netfilter:nftables",
    "protobuf": "google:protobuf-python",
    "python3.13-minimal": "python:python",
    "python3-cryptography": "cryptography.io:cryptography",
    "stdlib": "golang:go",
    "systemd-boot": "systemd_project:systemd",
    "zlib1g": "zlib:zlib",
}
"""Vendors and products under which vulnerabilities are recorded, by a package's name in these documents."""


def upstream(version: str) -> str:
    """Leave out what a distribution adds to upstream's version: epoch, revision, repacking."""
    version = (version.partition(":")[2] or version).rpartition("+really")[2]
    return re.split(r"[-~+]|[.](?:dfsg|ds)", version.removeprefix("v"), maxsplit=1)[0]


def describe(
    name: str, version: str, purl: str, *, sha256: str = "", license: str = "NOASSERTION", kind: str = ""
) -> dict[str, Any]:
    """One package of the document; `kind` keeps identifiers of different ecosystems apart."""
    slug = re.sub("[^A-Za-z0-9.-]", "-", f"{kind}{name}")
    package: dict[str, Any] = {
        "SPDXID": f"SPDXRef-Package-{slug}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": license,
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
        ],
    }
    if name in CPES:
        part = "o" if name == "linux" else "a"
        cpe = f"cpe:2.3:{part}:{CPES[name]}:{upstream(version)}:*:*:*:*:*:*:*"
        package["externalRefs"].append(
            {"referenceCategory": "SECURITY", "referenceType": "cpe23Type", "referenceLocator": cpe}
        )
    if sha256:
        package["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
    return package


def describe_locked(
    name: str, entry: dict[str, Any], license: str = "NOASSERTION", shown: str = ""
) -> dict[str, Any]:
    """A package of the Debian lock; `shown` is the name that it has in the document if not its own."""
    query = f"arch={entry['arch']}&distro={entry['suite']}"
    purl = f"pkg:deb/debian/{quote(name, safe='')}@{quote(entry['version'], safe='')}?{query}"
    return describe(shown or name, entry["version"], purl, sha256=entry["sha256"], license=license)


def make_document(product: str, version: str, packages: list[dict[str, Any]]) -> dict[str, Any]:
    """The document, with the product itself as the package that contains the others."""
    name = product.lower()
    packages = sorted(packages, key=lambda package: str(package["name"]))
    own = describe(name, version, f"pkg:generic/{name}@{quote(version, safe='')}", license="MPL-2.0")
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    document = "SPDXRef-DOCUMENT"
    links = [(document, "DESCRIBES", own["SPDXID"])]
    links += [(own["SPDXID"], "CONTAINS", package["SPDXID"]) for package in packages]
    extracted = sorted(
        {ref for each in packages for ref in re.findall(r"LicenseRef-[\w.-]+", each["licenseDeclared"])}
    )
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": document,
        "name": f"{name}-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{version}-{digest}",
        "creationInfo": {"created": CREATED, "creators": ["Tool: talos-sbom"]},
        "hasExtractedLicensingInfos": [
            {
                "licenseId": ref,
                "name": ref.removeprefix("LicenseRef-"),
                "extractedText": "The text is in the package's file of the licences beside this document.",
            }
            for ref in extracted
        ],
        "packages": [own, *packages],
        "relationships": [
            {"spdxElementId": element, "relationshipType": kind, "relatedSpdxElement": related}
            for element, kind, related in links
        ],
    }
