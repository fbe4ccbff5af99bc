"""What Python generates is taken from a bundle, and is the same."""

import dataclasses
import importlib
import marshal
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import attr
import pytest

from talos.startup import generated
from talos.startup.bundle import HEAD, install

GENERATORS = {
    "dataclasses": ("exec",),
    "attr._make": ("compile",),
    "re._compiler": ("compile", "_sre"),
}
PATTERN = r"(?P<first>\d+)-(?i:[a-zü]{2,})\.(x|y)?"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    finders = [*sys.meta_path]
    before = {
        (module, name): vars(importlib.import_module(module)).get(name)
        for module, names in GENERATORS.items()
        for name in names
    }
    yield
    sys.meta_path[:] = finders
    for (module, name), value in before.items():
        if value is None:
            vars(importlib.import_module(module)).pop(name, None)
        else:
            vars(importlib.import_module(module))[name] = value


def generate() -> tuple[object, ...]:
    """Everything that is generated, and what it does."""

    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
    class Plain:
        number: int
        text: str = "a"
        more: list[int] = dataclasses.field(default_factory=list[int])

    @attr.s(auto_attribs=True, frozen=True)
    class Other:
        number: int
        text: str = "b"

    re.purge()
    pattern = re.compile(PATTERN, re.MULTILINE)
    match = pattern.match("12-ABÜ.y")
    assert match is not None
    binary = re.compile(rb"[\x00-\x20]+")
    assert Plain(number=1) == Plain(number=1)
    assert Plain(number=1) < Plain(number=2)
    assert hash(Other(1)) == hash(Other(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        Plain(number=1).number = 2  # pyright: ignore[reportAttributeAccessIssue]
    return (
        repr(Plain(number=1, more=[2])),
        repr(Other(1)),
        match.groupdict(),
        match.groups(),
        pattern.flags,
        pattern.groupindex,
        binary.sub(b"", b"a b\tc"),
    )


def write(file: Path, objects: dict[str, bytes]) -> None:
    index: dict[str, tuple[int, int, str, bool]] = {}
    data = b""
    for name, value in objects.items():
        index[name] = (len(data), len(value), "", False)
        data += value
    head = marshal.dumps(index)
    file.write_bytes(len(head).to_bytes(HEAD, "little") + head + data)


def test_what_was_recorded_is_taken_and_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = generate()
    recorded = generated.record()
    assert generate() == expected
    assert len(recorded) >= 4, "a module generates by other means now"
    assert len(recorded) == 4
    write(tmp_path / "bundle", recorded)
    install([str(tmp_path / "bundle")])
    found: list[bool] = []
    find = generated.find_object

    def counted(name: str) -> object:
        value = find(name)
        found.append(value is not None)
        return value

    monkeypatch.setattr(generated, "find_object", counted)
    generated.use_generated()
    assert generate() == expected
    assert found == [True] * len(recorded)


def test_what_is_not_there_is_generated() -> None:
    expected = generate()
    generated.use_generated()
    assert generate() == expected
