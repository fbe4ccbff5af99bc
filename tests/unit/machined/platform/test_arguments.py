"""Mistakes among the kernel's arguments are named, all of them, and nothing else."""

import pytest

from talos.machined.platform.arguments import find_environment, find_problems
from talos.system.proc.cmdline import parse_cmdline

GOOD = (
    "console=ttyS0 panic=10 talos.platform=metal talos.config=http://a/${uuid} "
    "talos.hostname=node-1.example.org "
    "talos.experimental.wipe=system:EPHEMERAL,STATE talos.halt_if_installed talos.shutdown=halt "
    "talos.dashboard.disabled=1 talos.device.settle_time=1m30s talos.network.interface.ignore=eth7 "
    "talos.environment=no_proxy= talos.auditd.disabled=1 talos.unified_cgroup_hierarchy=1"
)


def test_what_is_right_is_not_mentioned() -> None:
    assert find_problems(parse_cmdline(GOOD)) == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("talos.platfrom=metal", 'did you mean "talos.platform"'),
        ("talos.platform=vax", '"vax" is ignored'),
        ("talos.config=ftp://a", "a URL, metal-iso or none"),
        ("talos.halt_if_installed=perhaps", "1 or 0"),
        ("talos.shutdown=reboot", "(halt)"),
        ("talos.device.settle_time=5", "such as 5s"),
        ("talos.experimental.wipe=disk", "system:EPHEMERAL,STATE"),
        ("talos.hostname=-a", "a DNS name"),
        ("talos.config.inline=", "it needs a value"),
        ("talos.config.oauth.client_id=", "it needs a value"),
        ("talos.config.oauth.scope=a", "no effect without talos.config.oauth.client_id"),
        ("talos.config.oauth.scopes=a", 'did you mean "talos.config.oauth.scope"'),
        ("talos.config.oauth.client_id=a talos.config.oauth.token_url=x", "a URL"),
        ("talos.config.oauth.client_id=a talos.config.oauth.extra_variable=", "it needs a value"),
        ("talos.environment=2=a", "(NAME=VALUE)"),
        ("talos.environment=http_proxy:http://user:secret@proxy", '"http_proxy:http://proxy" is ignored'),
        ("talos.auditd.disabled=0", "nodes have no auditd"),
        ("talos.unified_cgroup_hierarchy=0", "cgroups of version 2 only"),
    ],
)
def test_a_mistake_is_named(text: str, part: str) -> None:
    (line,) = find_problems(parse_cmdline(f"{GOOD} {text}"))
    assert line.startswith(text.split()[-1].partition("=")[0])
    assert part in line


def test_the_last_value_of_a_variable_is_the_one() -> None:
    text = 'talos.environment=A=1 talos.environment="B=2 = 3" talos.environment=A=4 talos.environment=C'
    assert find_environment(parse_cmdline(text)) == {"A": "4", "B": "2 = 3"}
