"""Definitions of extensions' services."""

import pytest

from talos.extensions.service import Depends, ServiceMount, parse_service
from talos.system.errors import UserError

DEFINITION = """
name: agent
depends:
  - service: cri
  - path: /dev/port
  - network: [addresses, hostname]
  - time: true
  - configuration: true
container:
  entrypoint: /bin/agent
  args: [--now, "7"]
  environment: [A=b, C=d=e]
  environmentFile: /var/agent.env
  mounts:
    - {source: /sys, destination: /sys, type: bind, options: [rbind, ro]}
  security:
    writeableRootfs: true
    maskedPaths: []
    rootfsPropagation: shared
restart: untilSuccess
logToConsole: true
"""


def test_a_definition() -> None:
    found = parse_service(DEFINITION, "agent.yaml")
    assert found.argv == ("/bin/agent", "--now", "7")
    assert found.environment == {"A": "b", "C": "d=e"}
    assert found.environment_file == "/var/agent.env"
    assert found.mounts == (ServiceMount(source="/sys", target="/sys", type="bind", options=("rbind", "ro")),)
    assert found.depends == Depends(
        services=("cri",),
        paths=("/dev/port",),
        network=frozenset({"addresses", "hostname"}),
        time=True,
        configuration=True,
    )
    assert (found.restart, found.writable_root, found.masked, found.read_only) == (
        "untilSuccess",
        True,
        (),
        None,
    )
    assert found.root == "/usr/local/lib/containers/agent"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("name: agent", "name: a/b", "name: 'a/b' is not of lower-case letters"),
        ("  entrypoint: /bin/agent\n", "", "entrypoint is no text"),
        ('"7"', "7", "args is no text (quote what looks like a number)"),
        ("A=b", "A", "environment: 'A' is not NAME=value"),
        ("destination: /sys", "destination: sys", "the destination 'sys' does not begin with /"),
        ("hostname]", "wifi]", "network: 'wifi' (one of addresses"),
        ("untilSuccess", "sometimes", "restart: 'sometimes' (one of always"),
        ("writeableRootfs: true", "writeableRootfs: 1", "writeableRootfs is neither true nor false"),
        ("service: cri", "services: cri", "unknown field 'services'"),
    ],
)
def test_a_definition_that_is_none(old: str, new: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_service(DEFINITION.replace(old, new), "agent.yaml")
    assert str(caught.value).startswith("agent.yaml: ")
    assert reason in str(caught.value)
