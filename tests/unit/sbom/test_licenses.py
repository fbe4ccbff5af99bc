"""Licences are read from what packages bring, versions become those that CVEs are recorded for."""

import zipfile
from pathlib import Path

import pytest
from licenses import UNKNOWN, of_copyright, of_module, of_text, of_wheel, parse_names
from spdx import describe, make_document, upstream

COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: x

Files: *
Copyright: somebody
License: GPL-2+ or Artistic

Files: debian/*
Copyright: another
License: Expat

License: Unused-1
 Not of any file.
"""


@pytest.mark.parametrize(
    ("line", "expression"),
    [
        ("Expat", "MIT"),
        ("GPL-2+", "GPL-2.0-or-later"),
        ("LGPL-2.1", "LGPL-2.1-only"),
        ("GPL-2+ or Artistic, and Expat", "(GPL-2.0-or-later OR Artistic-1.0-Perl) AND MIT"),
        ("public-domain", "LicenseRef-public-domain"),
        ("GPL-3+ with Bison exception", "LicenseRef-GPL-3-with-Bison-exception"),
    ],
)
def test_names_become_expressions(line: str, expression: str) -> None:
    assert parse_names(line) == expression


def test_a_copyright_file_names_the_licences_of_its_files() -> None:
    assert of_copyright(COPYRIGHT) == "(GPL-2.0-or-later OR Artistic-1.0-Perl) AND MIT"
    assert of_copyright("This is free software; see /usr/share/common-licenses/GPL-2.") == UNKNOWN


@pytest.mark.parametrize(
    ("head", "expression"),
    [
        ("License-Expression: MIT OR Apache-2.0", "MIT OR Apache-2.0"),
        ("License: MIT", "MIT"),
        ("License: 3-Clause BSD License", "BSD-3-Clause"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT"),
        ("Name: x", UNKNOWN),
    ],
)
def test_a_wheel_states_its_licence_and_has_the_text(tmp_path: Path, head: str, expression: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as wheel:
        wheel.writestr("x-1.dist-info/METADATA", f"Metadata-Version: 2.4\n{head}\n\nText\n")
        wheel.writestr("x-1.dist-info/licenses/LICENSE", "Do what you want.")
    assert of_wheel(tmp_path / "x.whl") == (expression, "Do what you want.")


def test_a_module_is_known_by_its_text(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("git.example/x@v1.0.0/LICENSE", "Apache License\n   Version 2.0")
        archive.writestr("git.example/x@v1.0.0/vendor/LICENSE", "Mozilla Public License 2.0")
    assert of_module(tmp_path / "x.zip")[0] == "Apache-2.0"
    assert of_text("Redistribution and use in source … Neither the name of") == "BSD-3-Clause"
    assert of_text("nothing of the kind") == ""


@pytest.mark.parametrize(
    ("version", "plain"),
    [
        ("6.12.117-1", "6.12.117"),
        ("1:1.3.dfsg+really1.3.1-1+deb13u1", "1.3.1"),
        ("1.7.24~ds1-6+deb13u1", "1.7.24"),
        ("v1.37.1", "1.37.1"),
    ],
)
def test_upstreams_version_is_what_vulnerabilities_name(version: str, plain: str) -> None:
    assert upstream(version) == plain


def test_a_document_names_the_kernel_and_declares_its_own_licence_names() -> None:
    linux = describe("linux", "6.12.117-1", "pkg:deb/debian/linux@6.12.117-1", license="LicenseRef-x")
    document = make_document("Talos", "v1", [linux])
    assert (
        linux["externalRefs"][1]["referenceLocator"] == "cpe:2.3:o:linux:linux_kernel:6.12.117:*:*:*:*:*:*:*"
    )
    assert [each["licenseId"] for each in document["hasExtractedLicensingInfos"]] == ["LicenseRef-x"]
    assert document == make_document("Talos", "v1", [linux])
    # Existing clients look for it in lower case.
    assert document["packages"][0]["name"] == "talos"
