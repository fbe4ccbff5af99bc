"""The bill of materials of a composition: the system's and those of its extensions."""

from merge import merge
from spdx import describe, make_document


def test_a_package_of_several_documents_is_there_once() -> None:
    libc, other = describe("libc6", "1", "pkg:deb/libc6@1"), describe("libc6", "2~x", "pkg:deb/libc6@2")
    system = make_document("Talos", "v1.15.0", [libc, describe("runc", "1", "pkg:deb/runc@1")])
    first = make_document("one", "1", [libc, describe("agent", "1", "pkg:deb/agent@1")])
    second = make_document("two", "1", [other])
    found = merge([system, first, second])
    assert sorted((package["SPDXID"], package["versionInfo"]) for package in found) == [
        ("SPDXRef-Package-agent", "1"),
        ("SPDXRef-Package-libc6", "1"),
        ("SPDXRef-Package-libc6-2-x", "2~x"),
        ("SPDXRef-Package-runc", "1"),
    ]
