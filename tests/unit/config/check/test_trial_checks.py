"""``TrialCheckConfig``: every mistake with its place, and what is left of a good one."""

from pathlib import Path

import pytest
from tests.unit.config.samples import make_plain

from talos.config.check.across import check_across
from talos.config.check.documents import check_document
from talos.config.effective.trial_checks import MAX_CHECKS, MAX_TIMEOUT, TrialCheck, list_trial_checks
from talos.config.problem import ConfigError
from talos.config.read.loader import load
from talos.resource.yaml.text import to_yaml

HEADER = "apiVersion: v1alpha1\nkind: TrialCheckConfig\nname: shop\n"
EXAMPLE = Path(__file__).parents[4] / "docs/examples/TrialCheckConfig.yaml"


def find(text: str) -> list[tuple[str, str]]:
    """Places and messages."""
    (document,) = load(text).documents
    return [(note.path, note.message) for note in check_document(document)]


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("http: {url: 'https://a/b?c'}", TrialCheck(name="shop", url="https://a/b?c", timeout=5)),
        (
            "http: {url: 'http://[::1]:8', timeout: 10s}",
            TrialCheck(name="shop", url="http://[::1]:8", timeout=10),
        ),
        (
            "tcp: {endpoint: 'db:5432', timeout: 250ms}",
            TrialCheck(name="shop", endpoint="db:5432", timeout=0.25),
        ),
        ("tcp: {endpoint: '[fd00::5]:1'}", TrialCheck(name="shop", endpoint="[fd00::5]:1")),
        ("cel: node.node_ready", TrialCheck(name="shop", expression="node.node_ready")),
    ],
)
def test_a_good_one_has_its_defaults(text: str, check: TrialCheck) -> None:
    assert find(HEADER + text) == []
    assert list_trial_checks(load(HEADER + text)) == (check,)
    assert check.make_probe_id() == ("" if check.expression else "trial:shop")


def test_the_example_is_good() -> None:
    assert find(EXAMPLE.read_text()) == []
    assert list_trial_checks(load("")) == ()


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "", "has no condition"),
        ("http: {url: 'http://a'}\ncel: 'true'", "", "has http and cel"),
        ("http: {}", "http.url", "is missing"),
        ("http: {url: 'http://:80/a'}", "http.url", "names no host"),
        ("http: {url: 'http://me:secret@a/'}", "http.url", "has a user or password"),
        ("http: {url: 'http://a', timeout: 11s}", "http.timeout", '"11s" is out of range'),
        ("http: {url: 'http://a', timeout: 0s}", "http.timeout", '"0s" is out of range'),
        ("tcp: {endpoint: a, timeout: -1s}", "tcp.timeout", '"-1s" is out of range'),
        ("tcp: {}", "tcp.endpoint", "is missing"),
        *(
            (f"tcp: {{endpoint: '{bad}'}}", "tcp.endpoint", f'"{bad}" is no host with a port')
            for bad in ("a", "a:", ":80", "a:99999", "a:80/b", "me@a:80", "[::1", "a" * 300 + ":80")
        ),
        ("cel: ''", "cel", "is missing"),
        ("cel: node.node_ready &&", "cel", "character 19"),
        ("cel: services.kubelet", "cel", "has no field kubelet"),
        ("cel: size(services)", "cel", "it gives int, not bool"),
        ("cel: disk.size > 1u", "cel", "disk is not known here"),
    ],
)
def test_a_mistake_has_its_place(text: str, place: str, message: str) -> None:
    assert any(path == place and message in found for path, found in find(HEADER + text)), find(HEADER + text)


@pytest.mark.parametrize("name", ["", "Shop", "a_b", "-a", "a-", "a" * 64, "a b", '"a\\nb"'])
def test_a_name_is_short_and_plain(name: str) -> None:
    found = find(HEADER.replace("shop", name) + "cel: 'true'")
    assert [path for path, _ in found] == ["name"]


def test_a_url_has_a_bound_and_is_of_http() -> None:
    for url in ("ftp://a/", "http://a/" + "b" * 2048):
        with pytest.raises(ConfigError, match="url"):
            load(f"{HEADER}http: {{url: '{url}'}}")


@pytest.mark.parametrize(("number", "is_refused"), [(MAX_CHECKS, False), (MAX_CHECKS + 3, True)])
def test_their_number_has_a_bound(number: int, *, is_refused: bool) -> None:
    checks = [f"{HEADER.replace('shop', f'a{index}')}cel: 'true'\n" for index in range(number)]
    config = load("---\n".join([to_yaml(make_plain("HostnameConfig")), *checks]))
    found = [note for note in check_across(config, in_container=False) if "more than" in note.message]
    assert [note.document and note.document.id for note in found] == (
        [f"TrialCheckConfig/a{MAX_CHECKS}"] if is_refused else []
    )


def test_a_check_is_done_before_an_upgrade_stops_waiting() -> None:
    assert MAX_TIMEOUT == 10
