"""What may follow what, and what runs where."""

import pytest

from talos.system.errors import UserError
from talos.talosctl.kubernetes.versions import check_default, check_path, check_support, sort_versions


@pytest.mark.parametrize(
    ("source", "target"),
    [("1.37.1", "1.37.1"), ("v1.37.1", "1.37.2"), ("1.36.4", "1.37.0"), ("1.37.0", "1.37.0-rc.1")],
)
def test_the_same_and_the_next_minor_version_may_follow(source: str, target: str) -> None:
    check_path(source, target)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("1.35.6", "1.37.1", "unsupported upgrade path 1.35->1.37"),
        ("1.37.1", "1.36.4", "unsupported upgrade path 1.37->1.36"),
        ("1.37.1", "2.0.0", "unsupported upgrade path 1.37->2.0"),
        ("1.37.1", "newest", '"newest" is not a version'),
        ("", "1.37.1", '"" is not a version'),
    ],
)
def test_all_others_are_refused(source: str, target: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_path(source, target)


def test_skipped_versions_are_named() -> None:
    with pytest.raises(UserError) as caught:
        check_path("1.34.0", "1.37.1")
    assert caught.value.hint == "upgrade to 1.35 first"


def test_versions_of_a_cluster_are_compared_as_numbers() -> None:
    found = ["v1.37.1", "v1.9.0", "v1.10.0-rc.1", "latest"]
    assert sort_versions(found) == ["1.9.0", "1.10.0-rc.1", "1.37.1"]
    with pytest.raises(UserError, match="no version of Kubernetes is found"):
        sort_versions(["latest"])


def test_the_version_without_a_flag_is_no_step_back() -> None:
    check_default(["1.36.4", "1.37.0-rc.1"], "1.37.0-rc.1")
    with pytest.raises(UserError, match=r"--to: 1\.37\.1 runs, which is newer than 1\.37\.0-rc\.1"):
        check_default(["1.36.4", "1.37.1"], "1.37.0-rc.1")


@pytest.mark.parametrize(
    ("system", "target", "message"),
    [
        ("1.15.0-alpha.0", "1.38.0", "1.38.0 is too new to be used with Talos 1.15.0-alpha.0"),
        ("1.15.0", "1.31.9", "1.31.9 is too old"),
        ("1.13.2", "1.37.0", "it runs Talos 1.13.2, this client upgrades 1.14, 1.15"),
    ],
)
def test_a_node_is_not_given_what_it_can_not_run(system: str, target: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_support(system, target, "10.0.0.2")
    check_support("1.15.0", "1.37.1", "10.0.0.2")
