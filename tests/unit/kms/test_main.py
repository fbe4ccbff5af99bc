"""The flags of the key management service."""

from pathlib import Path

import pytest

from talos.kms.main import main


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--key", "nowhere"], "nowhere: can't be read"),
        (["--key", "short"], "short: it has 2 bytes, not 32"),
        (["--key", "key", "--addr", "x"], '--addr: "x" is no address with a port'),
        (["--key", "key", "--cert", "c"], "--cert, --cert-key: belong together (give both or none)"),
    ],
)
def test_a_mistake(
    more: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_bytes(b"xy")
    (tmp_path / "key").write_bytes(bytes(32))
    assert main(more) == 1
    assert reason in capsys.readouterr().err
