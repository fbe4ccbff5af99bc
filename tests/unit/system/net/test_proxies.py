"""The proxy that the environment names."""

import pytest

from talos.system.net.proxies import find_proxy


def test_a_proxy_is_that_of_the_scheme_unless_the_host_is_excepted() -> None:
    environment = {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": "localhost,.example.org"}
    assert find_proxy("https", "example.com", environment) == "http://proxy:3128"
    assert find_proxy("https", "a.example.org", environment) == ""
    assert find_proxy("http", "example.com", environment) == ""


@pytest.mark.parametrize(
    ("host", "direct"),
    [("10.1.2.3", True), ("10.2.0.1", False), ("fd00::1", True), ("fe00::1", False), ("10.example", False)],
)
def test_networks_are_excepted(host: str, direct: bool) -> None:
    environment = {"http_proxy": "http://proxy", "NO_PROXY": "10.1.0.0/16, fd00::/8,,300.0.0.0/8"}
    assert (find_proxy("http", host, environment) == "") is direct


def test_everything_may_be_excepted() -> None:
    assert find_proxy("http", "example.org", {"http_proxy": "http://proxy", "no_proxy": "*"}) == ""
