"""Wrong arguments are answered with one line, and the server runs until a signal stops it."""

import os
import signal
import threading
import urllib.request
from ipaddress import IPv4Interface
from pathlib import Path

import pytest

from talos.provision.pxe import main as program
from talos.provision.pxe.network import find_address, parse_lease
from talos.provision.pxe.tools import find_tools
from talos.system.errors import UserError

ADDRESS = IPv4Interface("10.0.0.2/24")


@pytest.fixture
def assets(tmp_path: Path) -> Path:
    for name in ("boot.ipxe", "vmlinuz", "initramfs"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_the_address_of_an_interface() -> None:
    assert find_address("lo") == IPv4Interface("127.0.0.1/8")
    with pytest.raises(UserError, match="--interface: 'nothing' has no IPv4 address"):
        find_address("nothing")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.0.0.9", "no range"),
        ("10.0.0.9,10.0.0.8", "ends before it begins"),
        ("10.0.0.9,10.0.1.8", "10.0.1.8 is not in 10.0.0.0/24"),
        ("10.0.0.1,10.0.0.8", "contains 10.0.0.2, which is ours"),
    ],
)
def test_a_wrong_range(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_lease(text, ADDRESS)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--mode", "full"], "--range: is missing"),
        (["--range", "127.0.0.2,127.0.0.9"], "are for --mode full"),
        (["--interface", "nothing"], "'nothing' has no IPv4 address"),
        (["--mode", "http", "--configs", "/nowhere"], "--configs /nowhere: is no folder"),
    ],
)
def test_wrong_arguments(
    assets: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert program.main([str(assets), "--interface", "lo", *argv]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1


def test_a_folder_without_a_kernel(assets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (assets / "vmlinuz").unlink()
    assert program.main([str(assets), "--interface", "lo"]) == 1
    assert "has no vmlinuz (build it: nix build .#netboot)" in capsys.readouterr().err


@pytest.fixture
def signed(tmp_path: Path) -> Path:
    for name in ("talos.efi", "systemd-boot.efi"):
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "--mode proxy: UEFI that boots from HTTP takes no answer beside a DHCP server's"),
        (["--mode", "http", "--argument", "debug"], "--argument, --config-url and --configs are for iPXE"),
        (["--mode", "http", "--config-url", "http://x"], "build it by lib.image { kernelArgs"),
    ],
)
def test_a_signed_folder_is_served_as_it_is(
    signed: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert program.main([str(signed), "--interface", "lo", *argv]) == 1
    assert message in capsys.readouterr().err


def test_a_signed_folder_without_a_boot_loader(signed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (signed / "systemd-boot.efi").unlink()
    assert program.main([str(signed), "--interface", "lo"]) == 1
    assert "has no systemd-boot.efi (build it: nix run .#sign-netboot)" in capsys.readouterr().err


def test_the_tools_of_the_pinned_root() -> None:
    tools = find_tools({"TALOS_PXE_ROOT": "/pinned"})
    assert tools.dnsmasq[0] == "/pinned/usr/lib64/ld-linux-x86-64.so.2"
    assert tools.dnsmasq[-1] == "/pinned/usr/sbin/dnsmasq"
    assert tools.ipxe == Path("/pinned/usr/lib/ipxe")


def test_it_serves_until_a_signal_stops_it(assets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[bytes] = []
    ready = threading.Event()
    seen = program.show

    def watch(line: str) -> None:
        seen(line)
        if line.startswith("web server: "):
            ready.set()

    def fetch() -> None:
        ready.wait(10)
        with urllib.request.urlopen("http://127.0.0.1:47631/assets/vmlinuz") as answer:
            answers.append(answer.read())
        os.kill(os.getpid(), signal.SIGTERM)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    fetching = threading.Thread(target=fetch)
    fetching.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "show", watch)
        code = program.main([str(assets), "--interface", "lo", "--mode", "http", "--port", "47631"])
    fetching.join()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    assert (code, answers) == (0, [b"vmlinuz"])
    assert "http on lo (127.0.0.1/8)" in capsys.readouterr().out
