"""What a cloud's metadata server sends is either understood or refused in one line, and soon."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

import pytest
from tests.unit.machined.platform.clouds.cloud import CARDS

from talos.machined.platform.builder import NetworkBuilder
from talos.machined.platform.clouds.cloud import Cloud
from talos.machined.platform.clouds.registry import MODULES, find_cloud

from .trial import Parser, check_parser

EXAMPLES = 600
"""For each cloud; a document has several parts, and each is the same then."""
MIN_SEED = 40
"""Characters of a text that is a document, and no name."""


@dataclass(frozen=True, slots=True)
class SameParts(Mapping[str, bytes]):
    """Documents whose parts are all the same, whatever their names."""

    data: bytes

    def __getitem__(self, name: str) -> bytes:
        return self.data

    def __iter__(self) -> Iterator[str]:
        return iter(("tags/instance/a",))

    def __len__(self) -> int:
        return 1


def _describe(cloud: Cloud, data: bytes) -> None:
    builder = NetworkBuilder(CARDS)
    cloud.describe(SameParts(data), builder)
    builder.spec.SerializeToString()


def _find_seeds(name: str) -> Sequence[bytes]:
    """The documents that the cloud's own tests have."""
    tests = import_module(f"tests.unit.machined.platform.clouds.test_{MODULES[name]}")
    texts = [value for value in vars(tests).values() if isinstance(value, str) and len(value) > MIN_SEED]
    return [text.encode() for text in texts]


@pytest.mark.parametrize("name", MODULES)
def test_bad_metadata_is_refused(name: str) -> None:
    cloud = find_cloud(name)
    assert cloud is not None

    def parse(data: bytes) -> None:
        _describe(cloud, data)

    check_parser(Parser(parse=parse, seeds=_find_seeds(name), examples=EXAMPLES))
