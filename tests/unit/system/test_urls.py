"""URLs as everybody may see them."""

import pytest

from talos.system.urls import find_host, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h:1/a@b/c", "https://h:1/a@b/c"),
        ("https://me:pass@word@h/x", "https://h/x"),
        ("https://h/x?token=s&ref=v1#part", "https://h/x?token=***&ref=***#part"),
        ("https://h/x?s", "https://h/x?***"),
        ("https://h/x?u=${uuid}&t=${uuid}s&empty=", "https://h/x?u=${uuid}&t=***&empty="),
        ("no URL", "no URL"),
    ],
)
def test_users_and_queries_are_left_out(url: str, shown: str) -> None:
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Log.example:8443/path", "log.example"),
        ("https://[fd00::1]/", "fd00::1"),
        ("https://[", ""),
        ("log.example", ""),
        ("None", ""),
        ("", ""),
    ],
)
def test_hosts(url: str, host: str) -> None:
    assert find_host(url) == host
