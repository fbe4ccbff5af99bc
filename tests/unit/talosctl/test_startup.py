"""What a command imports, seen from a process of its own."""

import subprocess
import sys

PROBE = """
import os, sys
from talos.talosctl import main
os._exit = lambda code: None
sys.argv = ["talosctl", *sys.argv[1:]]
main.main()
loaded = [name for name, module in sys.modules.items() if type(module).__name__ == "module"]
sys.stderr.write(" ".join(loaded))
"""


def imported(*argv: str) -> set[str]:
    command = [sys.executable, "-c", PROBE, *argv]
    environment = {"PYTHONPATH": ":".join(sys.path), "HOME": "/nonexistent"}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return set(result.stderr.split())


def test_help_imports_neither_client_nor_messages() -> None:
    assert not {"asyncio", "google.protobuf", "hpack", "yaml"} & imported("--help")


def test_a_call_leaves_out_what_it_does_not_use() -> None:
    modules = imported("services", "--help")
    assert {"asyncio", "hpack", "google.protobuf.descriptor"} <= modules
    unused = {
        "h2",
        "google.protobuf.internal.python_message",
        "ast",
        "tokenize",
        "yaml",
        "grpc",
        "cryptography",
        "trio",
    }
    assert not unused & modules
