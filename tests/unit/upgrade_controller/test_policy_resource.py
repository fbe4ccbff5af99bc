"""Policies as resources: what is wrong with one is in its status, and an annotation requests a retry."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from talos.system.errors import UserError
from talos.upgrade.release.signature import format_public
from talos.upgrade_controller.config import ClientAccess
from talos.upgrade_controller.main import main
from talos.upgrade_controller.manifests import make_kind
from talos.upgrade_controller.policy_resource import RETRY, ResourcePolicySource, make_settings
from talos.upgrade_controller.policy_source import GoneError

KEY = Ed25519PrivateKey.generate().public_key()
RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
ACCESS = ClientAccess(talosconfig=Path("/talosconfig"))


def make_spec(**more: Any) -> dict[str, Any]:
    channel = {"image": "registry.test/installer:stable", "keys": [format_public(KEY).decode()]}
    return {"channel": channel, **more}


def test_a_policy_of_snapshots_alone() -> None:
    settings = make_settings({"snapshots": {"recipients": [RECIPIENT], "folder": "/snapshots"}}, ACCESS)
    assert (settings.policy.channel, settings.keys) == (None, ())
    assert settings.snapshots is not None


def make_policy(spec: object, *, retry: str = "", status: object = None) -> dict[str, Any]:
    annotations = {RETRY: retry} if retry else {}
    metadata = {"name": "stable", "generation": 3, "annotations": annotations}
    return {"metadata": metadata, "spec": spec, **({"status": status} if status else {})}


def test_a_policy_is_the_same_as_a_file() -> None:
    settings = make_settings(make_spec(paused=True, windows=[{"from": "22:00", "to": "04:00"}]), ACCESS)
    assert (settings.keys, settings.policy.paused, len(settings.windows)) == ((KEY,), True, 1)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({}, "spec.channel: is missing (name a channel, or snapshots to take)"),
        ({"channel": {}}, "spec.channel.image: is missing"),
        ({"snapshots": {"folder": "/x"}}, "spec.snapshots.recipients: is missing"),
        (make_spec(paralel=1), "spec.paralel: unknown key"),
        (make_spec(talosconfig="/etc/passwd"), "spec.talosconfig: unknown key"),
        (make_spec(windows=[{"from": "1", "to": "2"}]), "spec.windows[0].from: '1' is no time of the day"),
        (make_spec(windows=[{"from": "1:00", "to": "2:00", "timeZone": "../x"}]), "windows[0].timeZone: "),
        (make_spec(maxUnavailable="all"), "spec.maxUnavailable: 'all' is no number of nodes"),
        ({"channel": {"image": "r.test/i", "keys": ["x"]}}, "spec.channel.keys[0]: is no public Ed25519 key"),
    ],
)
def test_mistakes_name_their_place(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError) as caught:
        make_settings(spec, ACCESS)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("found", [{}, {"spec": None}, {"spec": []}, {"spec": "x"}])
def test_resources_that_are_something_else(found: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        ResourcePolicySource(ACCESS, {"metadata": {"name": "odd"}, **found}).load()


def test_two_policies_have_no_place_for_snapshots_in_common() -> None:
    bucket = {"endpoint": "https://s3.test", "bucket": "backups", "credentials": "key"}

    def make(name: str, age: int, **place: Any) -> dict[str, Any]:
        policy = make_policy(make_spec(snapshots={"recipients": [RECIPIENT], **place}))
        policy["metadata"] |= {"name": name, "creationTimestamp": f"2026-01-0{age}T00:00:00Z"}
        return policy

    first, same = make("b", 1, s3={**bucket, "prefix": "a/"}), make("a", 2, s3={**bucket, "prefix": "a/"})
    another, folder = make("c", 3, s3=bucket), make("d", 4, folder="/snapshots")
    odd = make_policy("x") | {"metadata": {"name": "0"}}

    def load(found: dict[str, Any]) -> None:
        ResourcePolicySource(ACCESS, found, lambda: [odd, same, first, another, folder]).load()

    for found in (first, another, folder):
        load(found)
    with pytest.raises(UserError, match=r"spec\.snapshots: the policy b has its snapshots there"):
        load(same)


def test_a_deleted_one_is_gone() -> None:
    place = ResourcePolicySource(ACCESS, make_policy(make_spec()))
    place.found = None
    with pytest.raises(GoneError):
        place.load()
    place.write({"state": "current"})
    assert place.read() == {}


def test_another_annotation_lets_a_release_be_tried_again() -> None:
    place = ResourcePolicySource(ACCESS, make_policy(make_spec()))
    place.write({"state": "held", "held": {"digest": "sha256:1"}})
    assert place.written["observedGeneration"] == 3
    assert place.read()["held"]["digest"] == "sha256:1"
    # What the API still has is older.
    place.found = make_policy(make_spec(), status={"state": "upgrading"})
    assert place.read()["held"]["digest"] == "sha256:1"
    place.found = make_policy(make_spec(), retry="now")
    assert place.read()["held"] == {}
    place.write({"state": "held", "held": {"digest": "sha256:1"}})
    assert place.read()["held"]["digest"] == "sha256:1"
    # A controller that starts anew finds what the one before has written.
    again = ResourcePolicySource(ACCESS, make_policy(make_spec(), retry="now", status=place.written))
    assert again.read()["held"]["digest"] == "sha256:1"


def test_the_kind_has_a_setting_of_the_file_in_its_schema() -> None:
    (version,) = make_kind()["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["anyOf"] == [{"required": ["channel"]}, {"required": ["snapshots"]}]
    assert spec["properties"]["channel"]["required"] == ["image", "keys"]
    assert spec["properties"]["windows"]["items"]["required"] == ["from", "to"]
    assert spec["properties"]["parallel"]["minimum"] == 1
    assert "talosconfig" not in spec["properties"]


def test_it_follows_policies_in_a_pod_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies", "--talosconfig", "/dev/null"]) == 1
    assert "this is no pod with an account" in capsys.readouterr().err
