"""CEL, as far as configs take it: values, types, bounds."""

from datetime import timedelta
from typing import Any

import pytest

from talos.api.definitions.block_pb2 import DiskSpec
from talos.api.definitions.k8s_pb2 import NodeStatusSpec
from talos.api.definitions.network_pb2 import LinkStatusSpec
from talos.config.cel import environments
from talos.config.cel.compile import Environment, compile_expression
from talos.config.cel.types import DOUBLE, Type, message_type
from talos.system.errors import UserError

DISK = {
    "disk": DiskSpec(
        size=200 * 10**9,
        dev_path="/dev/sda",
        transport="nvme",
        serial="AB1",
        symlinks=["/dev/disk/by-id/x", "/dev/disk/by-path/y"],
    ),
    "system_disk": False,
}
BOOL = Type("bool")


def evaluate(
    text: str,
    environment: Environment = environments.DISK,
    variables: dict[str, Any] = DISK,
    result: Type = BOOL,
) -> Any:
    return compile_expression(text, environment, where="here", result=result).evaluate(variables)


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
        ("size(disk.symlinks) == 2 && disk.symlinks[0].size() > 3", True),
        ("disk.rotational ? false : 1 + 2 * 3 == 7", True),
        ("(1 + 2) * 3 == 9 && 7 / 2 == 3 && -7 / 2 == -3 && -7 % 2 == -1 && -1 < 0x10", True),
        (r'r"a\b" == "a\\b"', True),
        ('disk.symlinks.exists(link, link.startsWith("/dev/disk/by-path/"))', True),
        ('disk.symlinks.all(link, link.endsWith("x"))', False),
        ('disk.symlinks.exists_one(link, link.endsWith("x"))', True),
        ('disk.symlinks.filter(link, link.endsWith("y")).map(link, link.size()) == [19]', True),
        ("has(disk.serial) && !has(disk.wwid)", True),
        ("uint(5) == 5u && double(1) == 1.0 && string(3u) == '3'", True),
        ("duration('1h30m') > duration('500ms')", True),
    ],
)
def test_value(text: str, expected: bool) -> None:
    assert evaluate(text) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 1: it ends too early"),
        ("disk.size >", "character 12: it ends too early"),
        ("disk.colour == 1", r"character 6: talos.*DiskSpec has no field colour"),
        ("dsk.size > 1u", "character 1: dsk is not known here, but disk, system_disk"),
        ("a $ b", "character 3: not understood"),
        ("(true", r"character 6: \) expected"),
        ("true true", "character 6: true is not understood"),
        ('frob("x")', "character 1: there is no function frob"),
        ('disk.serial.frob("x")', "character 13: there is no function frob"),
        ("disk.size + 1u", "it gives uint, not bool"),
        ('disk.size < "x"', r"character 11: < can't be applied to \(uint, string\)"),
        ("disk.size > 120", r"character 11: > can't be applied to \(uint, int\)"),
        ("1 == true", r"character 3: == can't be applied to \(int, bool\)"),
        ('"a" * 30000000 == ""', r"character 5: \* can't be applied to \(string, int\)"),
        ("disk.size / 0u == 1u", "can't be computed"),
        ('int(double("inf")) == 1', "can't be computed: cannot convert float infinity to integer"),
        ("9223372036854775807 + 1 > 0", "can't be computed: 9223372036854775808 is out of range"),
        ("99999999999999999999 > 1", "character 1: 99999999999999999999 is out of range"),
        ("disk.symlinks[7] == ''", "can't be computed: there is no item 7 among 2"),
        ("disk.size && true", r"character 11: && can't be applied to \(uint, bool\)"),
        ('disk.serial.matches("(")', "can't be computed"),
        ("[1, 'a'].size() == 2", "character 1: int and string don't mix"),
        ("disk.symlinks.exists(disk, true)", "disk is taken"),
        ("[[1]].all(a, a.all(b, [b].all(c, true)))", "more than 2 loops"),
    ],
)
def test_mistake_has_its_place(text: str, message: str) -> None:
    with pytest.raises(UserError, match=f"^here: .*{message}"):
        evaluate(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 40 + "true" + ")" * 40, "nested deeper than 32 levels"),
        ("!" * 100 + "true", "nested deeper than 32 levels"),
        ("true" + " && true" * 200, "too long, at most 300"),
        ("'" + "a" * 3000 + "' == ''", "3008 characters, at most 2048 are read"),
        ("[" * 100, "nested deeper than 32 levels"),
        ("{" * 100, "nested deeper than 32 levels"),
        ("\\" * 2000, "not understood"),
        ('"' + "\\" * 2001, "not understood"),
    ],
)
def test_size_is_bounded(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate(text)


def test_patterns_take_linear_time() -> None:
    serial = {**DISK, "disk": DiskSpec(serial="a" * 2000 + "b")}
    assert evaluate('disk.serial.matches("^(a+)+$")', variables=serial) is False


def test_links_by_address() -> None:
    link = {"link": LinkStatusSpec(permanent_addr=bytes.fromhex("001a2b3c4d5e"))}
    text = 'mac(link.permanent_addr) == "00:1a:2b:3c:4d:5e" && glob("00:1a:*", mac(link.permanent_addr))'
    assert evaluate(text, environments.LINK, link) is True


def test_memory_pressure() -> None:
    text = (
        "multiply_qos_vectors(d_qos_memory_full_total, {System: 8.0, Podruntime: 4.0}) > 3000.0 && "
        'time_since_trigger > duration("5s") || memory_full_avg10 > 75.0'
    )
    pressure = {
        "d_qos_memory_full_total": {4: 400.0, 3: 10.0},
        "time_since_trigger": timedelta(seconds=6),
        "memory_full_avg10": 0.0,
    }
    assert evaluate(text, environments.OOM_TRIGGER, pressure) is True


def test_ranking_of_control_groups() -> None:
    text = (
        "memory_max.hasValue() ? 0.0 : {Besteffort: 1.0, Burstable: 0.5, Guaranteed: 0.0, Podruntime: 0.0, "
        "System: 0.0}[class] * double(memory_current.orValue(0u))"
    )
    group = {"memory_max": None, "memory_current": 1000, "class": 1}
    assert evaluate(text, environments.OOM_RANKING, group, DOUBLE) == 500.0
    assert evaluate(text, environments.OOM_RANKING, {**group, "memory_max": 5}, DOUBLE) == 0.0


def test_a_map_of_a_message_is_a_map() -> None:
    node = {"node": NodeStatusSpec(labels={"zone": "a"})}
    environment = environments.Environment(variables={"node": message_type(NodeStatusSpec)})
    for text in (
        'node.labels["zone"] == "a"',
        '"zone" in node.labels',
        'node.labels.all(key, key == "zone")',
    ):
        assert evaluate(text, environment, node)
    with pytest.raises(UserError, match="the map has no 'rack'"):
        evaluate('node.labels["rack"] == ""', environment, node)
    with pytest.raises(UserError, match="string has no field key"):
        evaluate('node.labels.all(label, label.key == "zone")', environment, node)
