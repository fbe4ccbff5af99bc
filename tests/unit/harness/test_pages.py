"""Command lines of pages, and those of them that only read."""

import pytest
from tests.harness.pages import read_command_lines, select_command

PAGE = """\
# A page

Inline `talosctl reset` is no command line.

```sh
talosctl services                       # state of every service
$ talosctl -n 10.5.0.2,10.5.0.3 memory
  talosctl get members -o yaml | less
kubectl get nodes
talosctl -n NODE etcd snapshot db > log
```

```yaml
talosctl: version
```

    talosctl dmesg --follow; date
"""
VALUES = {"10.5.0.2": "10.9.0.2", "10.5.0.3": "10.5.0.2", "SERVICE": "machined"}


def test_lines_are_those_of_shell_blocks() -> None:
    assert list(read_command_lines(PAGE)) == [
        "talosctl services",
        "talosctl -n 10.5.0.2,10.5.0.3 memory",
        "talosctl get members -o yaml",
        "talosctl -n NODE etcd snapshot db",
        "talosctl dmesg --follow",
    ]


@pytest.mark.parametrize(
    ("line", "command", "words"),
    [
        ("talosctl services", "service", "services"),
        ("talosctl -n @all get members", "get", "-n @all get members"),
        ("talosctl -n 10.5.0.2,10.5.0.3 memory", "memory", "-n 10.9.0.2,10.5.0.2 memory"),
        ("talosctl -n 10.5.0.20 memory", "memory", "-n 10.5.0.20 memory"),
        ("talosctl logs SERVICE -f", "logs", "logs machined"),
        ("talosctl dmesg --follow", "dmesg", "dmesg"),
        ("talosctl etcd alarm list", "etcd alarm list", "etcd alarm list"),
        ("talosctl ls /etc", "list", "ls /etc"),
    ],
)
def test_addresses_are_those_of_a_cluster_and_nothing_is_followed(
    line: str, command: str, words: str
) -> None:
    assert select_command(line, VALUES) == (command, words.split())


@pytest.mark.parametrize(
    "line",
    [
        "talosctl reset",
        "talosctl service kubelet restart",
        "talosctl etcd alarm disarm",
        "talosctl apply-config -f config.yaml",
        "talosctl events",
        "talosctl time",
        "talosctl -n NODE memory",
        "talosctl logs --namespace cri kube-system/POD:kube-apiserver:ID",
    ],
)
def test_what_changes_something_or_has_no_end_is_left_out(line: str) -> None:
    assert select_command(line, VALUES) is None


def test_without_values_a_line_stays_as_it_is() -> None:
    assert select_command("talosctl -n 10.5.0.2 memory", {}) == ("memory", ["-n", "10.5.0.2", "memory"])
