"""Another Python like this one, which keeps its bytecode where this one does."""

import sys
from pathlib import Path

import pytest

from talos.provision.interpreter import interpreter_command
from talos.system.process import run_command


@pytest.mark.parametrize("writes", [True, False])
def test_bytecode_is_where_this_one_keeps_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, writes: bool
) -> None:
    (tmp_path / "sample.py").write_text("def main() -> None:\n    print('it runs')\n")
    cache = tmp_path / "cache"
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "pycache_prefix", str(cache))
    monkeypatch.setattr(sys, "dont_write_bytecode", not writes)
    assert run_command(interpreter_command("sample")).stdout == "it runs\n"
    assert bool([*cache.rglob("sample.*.pyc")]) is writes
    assert not (tmp_path / "__pycache__").exists()
