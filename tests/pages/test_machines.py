"""The boot server's page in a browser."""

import pytest
from tests.unit.provision.pxe.test_page import BOOT, MAC, follow

from talos.provision.pxe.page import serve_page

from .browser import PHONE, Browser
from .checks import find_faint, find_text, find_too_wide, take_picture


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_machine_that_boots_is_followed(browser: Browser, scheme: str) -> None:
    machines = follow(*BOOT[:3], f"10.0.0.9: is hostname={'long-name-' * 20}")
    browser.prefer("dark" if scheme == "dark" else "light")
    with serve_page(machines) as address:
        browser.open(address)
        assert "loads iPXE, 2 of 6" in browser.run("document.body.innerText")
        for line in BOOT[3:]:
            machines.record(line, 100.0)
        browser.open(address)
        assert "has its config, 6 of 6" in browser.run(find_text("article", f"{MAC} 10.0.0.50"))
        assert find_faint(browser) == []
        browser.resize(PHONE)
        assert find_too_wide(browser) == []
        take_picture(browser, f"machines-{scheme}")
