"""A mistake in a secret, or in a URL that has one, shows neither: events and logs reach every reader."""

import base64
from collections.abc import Iterator
from typing import Any, cast

import pytest
from tests.unit.config.samples import ALL_KINDS, make_plain, name_of, section_of

from talos.config.check.validate import Mode, validate
from talos.config.documents.registry import document_type
from talos.config.problem import ConfigError
from talos.config.read.loader import dump_plain, load
from talos.config.schema import Section, fields_of
from talos.config.values import Url

PLANTED = "planted-secret"
ENCODED = base64.b64encode(PLANTED.encode()).decode()
PEM = f"-----BEGIN PRIVATE KEY-----\n{ENCODED}\n-----END PRIVATE KEY-----\n"
WRONG: tuple[Any, ...] = (
    *(PLANTED, ENCODED, PEM, base64.b64encode(PEM.encode()).decode()),
    *([PLANTED], {PLANTED: PLANTED}, f"ftp://{PLANTED}"),
)
URLS = (
    f"nope://me:{PLANTED}@example.com/x",
    f"https://me:a/{PLANTED}@example.com",
    f"https://me:[{PLANTED}@example.com",
    f"https://example.com:x/a?token={PLANTED}",
    f"https://example.com?{PLANTED} {PLANTED}",
)


def shown(text: str) -> str:
    """Everything that is reported of a config."""
    try:
        report = validate(load(text), Mode.METAL)
    except ConfigError as error:
        return str(error)
    return "\n".join(map(str, (*report.errors, *report.warnings, *report.notes)))


def plant(section: type[Section], plain: Any, found: list[tuple[dict[str, Any], str, bool]]) -> None:
    """The places of all secrets and URLs: the mapping, its key, and whether it is a URL."""
    items = cast("list[dict[str, Any]]", plain if isinstance(plain, list) else [plain])
    for item in items:
        if "some key" in item:
            plant(section, item["some key"], found)
            continue
        for key, field in fields_of(section).items():
            is_url = issubclass(field.shape.type, Url)
            if field.setting.secret or is_url:
                found.append((item, key, is_url))
            elif (inner := section_of(field.shape)) is not None:
                plant(inner, item[key], found)


def variants(kind: str) -> Iterator[str]:
    document = make_plain(kind)
    places: list[tuple[dict[str, Any], str, bool]] = []
    plant(document_type(kind), document, places)
    for parent, key, is_url in places:
        before = parent[key]
        for value in URLS if is_url else WRONG:
            parent[key] = value
            yield dump_plain([document])
        parent[key] = before


@pytest.mark.parametrize("kind", ALL_KINDS, ids=[name_of(document_type(kind)) for kind in ALL_KINDS])
def test_no_mistake_shows_a_secret(kind: str) -> None:
    for text in variants(kind):
        output = shown(text)
        assert PLANTED not in output.lower(), output
        assert ENCODED not in output, output


def test_a_password_with_an_asterisk_is_not_shown() -> None:
    """YAML takes it for an alias."""
    output = shown(f"apiVersion: v1alpha1\nkind: RegistryAuthConfig\nname: a\npassword: *{PLANTED}\n")
    assert "4:11" in output
    assert PLANTED not in output
