"""The flags of the management service."""

from pathlib import Path

import pytest

from talos.pki.wireguard import make_private_key
from talos.siderolink.main import main

HERE = ["--endpoint", "192.0.2.1:51820"]
KEY = ["--public-key", make_private_key()]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([*HERE, *KEY, "--addr", "x"], '--addr: "x" is no address with a port'),
        (["--endpoint", ":1", *KEY], '--endpoint: ":1" has no host'),
        (["--endpoint", "host", *KEY], '--endpoint: "host" is no address with a port'),
        (HERE, "--link, --public-key: exclude each other (give one of them)"),
        ([*HERE, *KEY, "--link", "a"], "--link, --public-key: exclude each other"),
        ([*HERE, "--public-key", "x"], "--public-key: is no key of WireGuard"),
        ([*HERE, "--link", "not-there"], "link not-there: "),
        ([*HERE, *KEY, "--cert", "c"], "--cert, --cert-key: belong together"),
    ],
)
def test_a_mistake(
    arguments: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    assert reason in capsys.readouterr().err
