"""CEL, as far as choosing a disk takes it."""

import pytest

from talos.disks.expression import parse_expression
from talos.system.errors import UserError

NAMES = {
    "disk": {
        "size": 200 * 10**9,
        "dev_path": "/dev/sda",
        "transport": "nvme",
        "serial": "AB1",
        "rotational": False,
        "symlinks": ["/dev/disk/by-id/x"],
    },
    "system_disk": False,
}


def evaluate(text: str) -> bool:
    return parse_expression(text, where="here").is_true(NAMES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('disk.dev_path == "/dev/sda"', True),
        ("disk.dev_path == '/dev/sdb'", False),
        ('disk.size > 100u * GB && disk.transport == "nvme"', True),
        ("disk.size >= 200u * GB && disk.size < 200u * GiB", True),
        ("!system_disk", True),
        ("system_disk || disk.rotational", False),
        ("system_disk || disk.rotational || true && !false", True),
        ('"/dev/disk/by-id/x" in disk.symlinks', True),
        ('disk.transport in ["sata", "nvme"]', True),
        ('disk.serial.startsWith("A") && disk.serial.endsWith("1") && disk.serial.contains("B")', True),
        ('disk.serial.matches("^[A-Z]+$")', False),
        ('disk.serial.lowerAscii() == "ab1"', True),
        ('glob("A*", disk.serial)', True),
        ("size(disk.symlinks) == 1 && disk.symlinks[0].size() > 3", True),
        ("disk.rotational ? false : 1 + 2 * 3 == 7", True),
        ("(1 + 2) * 3 == 9 && 7 / 2 == 3 && 7 % 2 == 1 && -1 < 0x10", True),
        (r'r"a\b" == "a\\b"', True),
    ],
)
def test_what_it_says(text: str, expected: bool) -> None:
    assert evaluate(text) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: it ends too early"),
        ("disk.size >", "character 12: it ends too early"),
        ("disk.colour == 1", "character 6: there is no colour here"),
        ("dsk.size > 1", "character 1: dsk is not known"),
        ("a $ b", "character 3: not understood"),
        ("(true", r"character 6: \) expected"),
        ("true true", "character 6: true is not understood"),
        ('frob("x")', "character 1: there is no function frob with 1 arguments"),
        ('disk.serial.frob("x")', "character 13: there is no function frob"),
        ("disk.size + 1", "is 200000000001, neither true nor false"),
        ('disk.size < "x"', "can't be computed"),
        ("disk.size / 0 == 1", "can't be computed"),
        ("disk.size && true", "can't be computed: 200000000000 is neither true nor false"),
        ('disk.serial.matches("(")', "can't be computed"),
    ],
)
def test_what_is_not_understood_is_said(text: str, message: str) -> None:
    with pytest.raises(UserError, match=f"^here: .*{message}"):
        evaluate(text)
