"""What the node is in Kubernetes."""

import pytest

from talos.kubed.controllers.node import EXTENSIONS, split_versions


@pytest.mark.parametrize(
    ("version", "is_label"),
    [("v1.2.3", True), ("", True), ("1:10.0.13+ds-0", False), ("a" * 64, False), ("-a", False)],
)
def test_the_version_of_an_extension_is_a_label_where_it_can_be(version: str, *, is_label: bool) -> None:
    given = {f"{EXTENSIONS}hello": version}
    assert split_versions(given) == ((given, {}) if is_label else ({}, given))
