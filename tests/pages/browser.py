"""A browser without a screen, driven by WebDriver through chromedriver."""

import base64
import json
import re
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Literal

from tests.harness.cluster import eventually

WIDE, PHONE = (1280, 900), (375, 720)
"""Widths and heights of a window, in the page's pixels."""
CONDITION_TIMEOUT = 15_000
"""Milliseconds in which a condition has to come true; a busy machine takes its time."""
TAB, ENTER, ESCAPE = "\ue004", "\ue007", "\ue00c"
"""Keys, as WebDriver has them."""

_PORT = re.compile(rb"started successfully on port (\d+)")
# The build sandbox is one already, and has neither a display nor a processor for graphics.
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--remote-debugging-pipe",  # its own connection would need a name for 127.0.0.1
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--no-first-run",
)
_WAIT = """
const done = arguments[0];
const look = () => {
  const found = (%s);
  if (found) done(found); else setTimeout(look, 20);
};
look();
"""


class BrowserError(Exception):
    """What chromedriver replied instead of a value."""


class Browser:
    """One window. Expressions are JavaScript."""

    def __init__(self, port: int, program: str) -> None:
        self._port = port
        self._path = ""
        options = {"binary": program, "args": list(_ARGUMENTS)}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self._path = f"/session/{made['sessionId']}"
        self._call("POST", "/timeouts", {"script": CONDITION_TIMEOUT})

    def close(self) -> None:
        """End the browser."""
        self._call("DELETE", "")

    def open(self, address: str) -> None:
        """Load a page, with its scripts."""
        self._call("POST", "/url", {"url": address})

    def run(self, expression: str) -> Any:
        """The value of an expression."""
        return self._call("POST", "/execute/sync", {"script": f"return ({expression})", "args": []})

    def wait(self, condition: str) -> Any:
        """The value of an expression, once it is one that counts as true."""
        try:
            return self._call("POST", "/execute/async", {"script": _WAIT % condition, "args": []})
        except BrowserError as error:
            shown = self.run("document.body.innerText.slice(0, 2000)")
            raise AssertionError(f"{condition} did not come true; the page shows:\n{shown}") from error

    def wait_for_page(self, end: str) -> None:
        """Wait for another page, which ends the scripts of this one."""

        def check() -> None:
            address = self._call("GET", "/url")
            assert address.partition("?")[0].endswith(end), address

        eventually(f"the page {end}", check, seconds=CONDITION_TIMEOUT / 1000)

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": steps}]})

    def resize(self, size: tuple[int, int]) -> None:
        """Give the page another size, also one that no window has."""
        width, height = size
        self._devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def prefer(self, scheme: Literal["light", "dark"]) -> None:
        """Set what the user prefers."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._devtools("Emulation.setEmulatedMedia", {"features": features})

    def read_errors(self) -> Sequence[str]:
        """What the console has got since it was read last: errors of scripts, what a policy has refused."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def save_picture(self, path: Path) -> None:
        """Write what the window shows as a PNG."""
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def _devtools(self, command: str, parameters: dict[str, Any]) -> None:
        self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, self._path + path, text, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            value: Any = json.loads(reply.read())["value"]
        finally:
            connection.close()
        if reply.status != HTTPStatus.OK:
            raise BrowserError(f"{value['error']}: {value['message']}")
        return value


@contextmanager
def start_browser(program: str, driver: str) -> Generator[Browser]:
    """A browser until the end of the context."""
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout
    try:
        found = next(filter(None, map(_PORT.search, process.stdout)), None)
        assert found, f"{driver} has not started"
        browser = Browser(int(found[1]), program)
        try:
            yield browser
        finally:
            browser.close()
    finally:
        process.terminate()
        process.communicate()
