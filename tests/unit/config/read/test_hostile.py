"""Configs within the limits of size that are made to take long or much memory: the work stays linear.

Each took minutes or gigabytes with a quadratic step anywhere. The bound is on the processor's time,
a hundred times what a machine of today needs for most of them.
"""

import base64

import pytest
from tests.harness.processor import at_most

from talos.config.check.validate import Mode, validate
from talos.config.problem import ConfigError, Problem
from talos.config.read.loader import load
from talos.config.read.reader import MAX_PROBLEMS
from talos.config.read.tree import MAX_TEXT

SIZE = MAX_TEXT - 1024
MAX_SECONDS = 3.0
MAX_PROBLEM = 60_000  # characters of a problem: the path repeats the keys


def document(kind: str, body: str) -> str:
    return f"apiVersion: v1alpha1\nkind: {kind}\n{body}\n"


def repeat(text: str, count: int) -> str:
    return text * min(count, SIZE // len(text))


BLANK_PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----" + b" " * (SIZE // 2)).decode()
BLANK_KEY = base64.b64encode(b"-----BEGIN EC PRIVATE KEY-----" + b" " * (SIZE // 2)).decode()
WORKER = "version: v1alpha1\nmachine:\n  type: worker\n"

TEXTS = {
    "digits": document("FilesystemTrimConfig", "interval: " + "1" * SIZE),
    "dotted digits": document("FilesystemTrimConfig", "interval: " + repeat("1.", SIZE)),
    "size": document("SwapVolumeConfig", "name: a\nprovisioning: {maxSize: " + "9" * SIZE + "}"),
    "number": document("ZswapConfig", "maxPoolPercent: " + "9" * SIZE),
    "hexadecimal": document("ZswapConfig", "maxPoolPercent: 0x" + "f" * SIZE),
    "address": document("LinkConfig", "name: a\naddresses: [{address: '" + repeat("1:", SIZE) + "'}]"),
    "url": document("KmsgLogConfig", "name: a\nurl: tcp://[" + "a" * SIZE),
    "blank certificate": f"{WORKER}  acceptedCAs: [{{crt: {BLANK_PEM}}}]\n",
    "blank key": f"{WORKER}  ca: {{crt: '', key: {BLANK_KEY}}}\n",
    "prefixes": document("KubeNetworkConfig", f"podSubnets: [{repeat('10.0.0.0/8, ', 49_000)}]"),
    "unknown keys": document("ZswapConfig", "".join(f"maxPoolPercen{at}: 1\n" for at in range(24_000))),
    "wrong items": document("LinkConfig", f"name: a\naddresses: [{repeat('{addres: 1}, ', 16_000)}]"),
    "duplicate documents": "---\n".join([document("ZswapConfig", "maxPoolPercent: 1")] * 7_000),
    "duplicate keys": document(
        "KubeStaticPodConfig", "name: a\npod: {" + repeat("a: {b: 1, b: 2}, ", 12_000) + "}"
    ),
    "long paths": document(
        "KubeStaticPodConfig",
        "name: a\npod:\n"
        + "".join(f"{' ' * level}{'k' * 500}:\n" for level in range(1, 90))
        + "".join(f"{' ' * 90}k{at}: 1\n" for at in range(8_000)),
    ),
    "rule without an end": document("UdevRulesConfig", "rules: ['KERNEL==\"" + "a" * SIZE + "']"),
    "rule of blanks": document("UdevRulesConfig", "rules: ['KERNEL" + " " * SIZE + "']"),
    "rule of lines": document("UdevRulesConfig", 'rules: ["' + repeat("\\\\\\n", SIZE) + '"]'),
    "expressions": "---\n".join(
        document("LinkAliasConfig", f"name: n{at}\nselector: {{match: '{'!' * 2040}true'}}")
        for at in range(480)
    ),
    "labels": document("KubeNodeConfig", f"labels: {{a: '{'-' * SIZE}'}}"),
    "names": document("KubeNetworkConfig", "dnsDomain: " + repeat("a.", SIZE)),
    "image": document("ContainerConfig", "name: a\nimage: " + repeat("a-", SIZE)),
    "overlaps": document(
        "BGPInstanceConfig",
        "name: a\nlocalASN: 1\nimportRoutes: [{bgpInstance: b, prefixes: ["
        + "".join(f"10.{at // 256}.{at % 256}.0/24, " for at in range(40_000))
        + "]}]",
    ),
    "rules": document("UdevRulesConfig", "rules: [" + repeat("'KERNEL==\"\"', ", 49_000) + "]"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_reading_and_validating_ends_soon(name: str) -> None:
    with at_most(MAX_SECONDS):
        problems = find_problems(TEXTS[name])
    assert len(problems) <= MAX_PROBLEMS + 1
    assert all(len(str(problem)) < MAX_PROBLEM for problem in problems)


def find_problems(text: str) -> tuple[Problem, ...]:
    try:
        return validate(load(text), Mode.METAL, partial=True).errors
    except ConfigError as error:
        return error.problems


def test_reading_ends_after_many_mistakes() -> None:
    with pytest.raises(ConfigError) as raised:
        load(TEXTS["unknown keys"])
    assert len(raised.value.problems) == MAX_PROBLEMS + 1
    assert str(raised.value.problems[-1]) == f"more than {MAX_PROBLEMS} mistakes, the rest is not read"
