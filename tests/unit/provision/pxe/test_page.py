"""The page of machines that boot: what the lines of the log make of it, and who gets it."""

from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from tests.harness.limits import REAL_TIMEOUT

from talos.provision.pxe import machines as rooms
from talos.provision.pxe.machines import STAGES, Machines
from talos.provision.pxe.page import make_page, serve_page

MAC = "52:54:00:00:00:01"
BOOT = (
    f"{MAC}: has address 10.0.0.50",
    f"{MAC}: is sent to undionly.kpxe",
    "10.0.0.50: has loaded undionly.kpxe",
    "10.0.0.50: runs the script",
    "10.0.0.50: runs its own script",
    "10.0.0.50: has loaded vmlinuz, 19.1 MB",
    "10.0.0.50: has loaded initramfs, 48.8 MB",
    f"10.0.0.50: is mac={MAC} hostname=one",
    "10.0.0.50: has loaded default.yaml",
)


def follow(*lines: str) -> Machines:
    found = Machines()
    for at, line in enumerate(lines):
        found.record(line, float(at))
    return found


def test_a_machine_is_followed_from_its_address_to_its_config() -> None:
    stages = [follow(*BOOT[:count]).list_all()[0].stage for count in range(1, len(BOOT) + 1)]
    assert stages == [1, 2, 2, 3, 3, 4, 5, 5, len(STAGES)]
    (machine,) = follow(*BOOT).list_all()
    assert (machine.mac, machine.ip, machine.names) == (MAC, "10.0.0.50", f"mac={MAC} hostname=one")
    assert len(machine.steps) == len(BOOT)


def test_a_machine_that_boots_again_begins_anew() -> None:
    (machine,) = follow(*BOOT, f"{MAC}: has address 10.0.0.51", "10.0.0.51: runs the script").list_all()
    assert (machine.ip, machine.stage) == ("10.0.0.51", 3)


def test_without_dhcp_of_ours_the_address_is_its_name() -> None:
    found = follow("10.0.0.7: runs the script", "10.0.0.8: no config for this machine: no default.yaml")
    assert [(one.mac, one.ip, one.stage) for one in found.list_all()] == [
        ("", "10.0.0.8", 0),
        ("", "10.0.0.7", 3),
    ]


def test_lines_of_no_machine_and_too_many_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "MAX_MACHINES", 3)
    monkeypatch.setattr(rooms, "MAX_STEPS", 2)
    found = follow(
        "web server: http://10.0.0.2:8080", "", *(f"10.0.0.{at}: runs the script" for at in range(9))
    )
    assert [one.ip for one in found.list_all()] == ["10.0.0.8", "10.0.0.7", "10.0.0.6"]
    (machine,) = follow(*BOOT).list_all()
    assert [text for _, text in machine.steps] == [line.partition(": ")[2] for line in BOOT[-2:]]


def test_what_a_machine_names_itself_is_text() -> None:
    page = make_page(follow("10.0.0.7: is hostname=<script>alert(1)</script>"))
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "No machine has sent a request yet." in make_page(Machines())


def test_the_page_is_for_its_own_name_alone() -> None:
    with serve_page(follow(*BOOT)) as address:
        place = urlsplit(address)
        assert place.hostname == "127.0.0.1"

        def get(path: str, host: str) -> tuple[int, str]:
            connection = HTTPConnection("127.0.0.1", place.port or 0, timeout=REAL_TIMEOUT)
            connection.request("GET", path, headers={"Host": host})
            reply = connection.getresponse()
            text = reply.read().decode()
            connection.close()
            return reply.status, text

        status, text = get("/", place.netloc)
        assert (status, f"<h2>{MAC} 10.0.0.50</h2>" in text) == (200, True)
        assert get("/other", place.netloc)[0] == 404
        for host in ("evil.example", f"evil.example:{place.port}", "127.0.0.1"):
            assert get("/", host) == (421, "this server has another name\n")
