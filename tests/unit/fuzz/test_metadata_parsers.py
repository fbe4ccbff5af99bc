"""What a TUF repository sends is either understood or refused in one line, and soon."""

import json
from datetime import timedelta

import pytest
from tests.harness.sigstore import Sigstore
from tests.harness.tuf import NOW, Repository

from talos.machined.tuf.metadata import Role, parse_metadata
from talos.machined.tuf.program import OF_SIGSTORE
from talos.machined.tuf.refresh import refresh
from talos.machined.tuf.trusted import TrustedMetadata, format_trusted, parse_trusted

from .trial import Parser, check_parser

REPOSITORY = Repository(json.dumps(Sigstore().trusted_root()).encode(), NOW + timedelta(days=1))


def _follow(name: str, data: bytes) -> None:
    """A refresh in which one file is another."""
    files = {**REPOSITORY.files, name: data}
    list(refresh(TrustedMetadata(root=REPOSITORY.root), lambda one, _: files.get(one), NOW))


def _follow_root(data: bytes) -> None:
    _follow("2.root.json", data)


def _follow_timestamp(data: bytes) -> None:
    _follow("timestamp.json", data)


PARSERS = {
    "root": Parser(
        parse=lambda data: parse_metadata(data, Role.ROOT).payload, seeds=[OF_SIGSTORE.read_bytes()]
    ),
    "next root": Parser(parse=_follow_root, seeds=[OF_SIGSTORE.read_bytes(), REPOSITORY.root.encode()]),
    "timestamp": Parser(parse=_follow_timestamp, seeds=[REPOSITORY.files["timestamp.json"]]),
    "trusted files": Parser(
        parse=lambda data: parse_trusted(data, "x"),
        seeds=[format_trusted(TrustedMetadata(root=REPOSITORY.root))],
    ),
}


@pytest.mark.parametrize("name", PARSERS)
def test_bad_input_is_refused(name: str) -> None:
    check_parser(PARSERS[name])
