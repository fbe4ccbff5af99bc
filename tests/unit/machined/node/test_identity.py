"""The node's identity."""

from pathlib import Path

from talos.machined.node.identity import load_identity


def test_identity_is_kept(tmp_path: Path) -> None:
    first, second = load_identity(tmp_path), load_identity(tmp_path)
    assert first == second
    assert len(bytes.fromhex(first.machine_id)) == 16
    assert (tmp_path / "node-identity.yaml").stat().st_mode & 0o777 == 0o600
