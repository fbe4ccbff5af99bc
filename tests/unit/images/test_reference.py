"""References to images, as people write them."""

import pytest

from talos.images.reference import parse_reference
from talos.system.errors import UserError

DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("alpine:3", "docker.io/library/alpine:3"),
        ("user/app", "docker.io/user/app:latest"),
        ("index.docker.io/app", "docker.io/library/app:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("example.org:5000/a/b", "example.org:5000/a/b:latest"),
        ("[fd00::1]:5000/a:v1", "[fd00::1]:5000/a:v1"),
        (f"example.org/a@{DIGEST}", f"example.org/a@{DIGEST}"),
        (f"example.org/a:1@{DIGEST}", f"example.org/a:1@{DIGEST}"),
    ],
)
def test_a_reference_is_completed(short: str, full: str) -> None:
    assert str(parse_reference(short)) == full


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "a b",
        "A",
        "example.org/a@sha256:00",
        "example.org/a/../b",
        "example.org/a:",
        "example.org/a:b:c",
        "example.org//a",
        "example.org/a\r\nHost: b",
        "exa mple.org/a",
        "a" * 2000,
    ],
)
def test_what_is_no_reference_is_one_line(reference: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_reference(reference)
    assert "\n" not in str(caught.value)
    assert "image reference" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("example.org/a:1", "example.org/a:1"),
        (f"example.org/a@{DIGEST}", f"example.org/a@{DIGEST}"),
        (f"example.org/a:1@{DIGEST}", f"example.org/a@{DIGEST}"),
    ],
)
def test_a_digest_makes_a_tag_void(name: str, stored: str) -> None:
    assert str(parse_reference(name).stored) == stored
