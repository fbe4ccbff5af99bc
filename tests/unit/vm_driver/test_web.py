"""The web server that machines pull images from."""

from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

from driver.web import WebServer
from tests.harness.limits import REAL_TIMEOUT


def test_a_head_tells_what_a_get_sends() -> None:
    with closing(WebServer()) as web:
        port = urlsplit(web.serve("/v2/one/manifests/v1", "text", "text/one")).port
        with closing(HTTPConnection("127.0.0.1", port, timeout=REAL_TIMEOUT)) as connection:
            for method, body in (("HEAD", b""), ("GET", b"text")):
                connection.request(method, "/v2/one/manifests/v1?ns=example.org")
                response = connection.getresponse()
                assert (response.status, response.headers["Content-Type"]) == (200, "text/one")
                assert response.headers["Content-Length"] == "4"
                assert response.read() == body
