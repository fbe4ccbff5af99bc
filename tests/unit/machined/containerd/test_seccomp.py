"""The filter of system calls of the system's containers."""

import json
from typing import Any

import pytest

from talos.images.manifest import ImageConfig
from talos.machined.containerd.seccomp import ALLOWED, WITH_CAPABILITY, make_seccomp
from talos.machined.containerd.spec import ContainerSpec, make_oci_spec

IMAGE = ImageConfig(diff_ids=(), entrypoint=("/program",))
ATTACKS = (
    *(
        "add_key",
        "bpf",
        "finit_module",
        "io_uring_setup",
        "kexec_load",
        "keyctl",
        "mount",
        "open_by_handle_at",
    ),
    *("perf_event_open", "pivot_root", "reboot", "setns", "unshare", "userfaultfd"),
)


def find_rules(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [rule for rule in document["syscalls"] if name in rule["names"]]


@pytest.mark.parametrize("name", ATTACKS)
def test_a_container_without_capabilities_can_not(name: str) -> None:
    document = make_oci_spec(ContainerSpec(image="a"), IMAGE, "g")["linux"]["seccomp"]
    assert document["defaultAction"] == "SCMP_ACT_ERRNO"
    assert find_rules(document, name) == []


def test_calls_come_with_their_capabilities() -> None:
    document = make_seccomp(["CAP_SYS_ADMIN", "CAP_SYS_TIME"])
    for name in ("mount", "unshare", "settimeofday"):
        assert find_rules(document, name)
    assert find_rules(document, "reboot") == []
    assert [rule.get("args") for rule in find_rules(document, "clone")] == [None]


def test_clone_makes_no_namespaces() -> None:
    document = make_seccomp([])
    (clone,) = find_rules(document, "clone")
    assert clone["args"] == [{"index": 0, "value": 0x7E020000, "op": "SCMP_CMP_MASKED_EQ", "valueTwo": 0}]
    (newer,) = find_rules(document, "clone3")
    assert newer["action"] == "SCMP_ACT_ERRNO"
    (socket,) = find_rules(document, "socket")
    assert socket["args"] == [{"index": 0, "value": 40, "op": "SCMP_CMP_NE"}]


def test_the_kubelet_has_none() -> None:
    document = make_oci_spec(ContainerSpec(image="a", is_filtered=False), IMAGE, "g")
    assert "seccomp" not in json.dumps(document["linux"])


def test_names_are_listed_once() -> None:
    assert len(ALLOWED) == len(set(ALLOWED)) > 250
    assert all(not set(names) & set(ALLOWED) for names in WITH_CAPABILITY.values())
