"""Servers that a node talks to: dnsmasq, chrony, radvd from the pinned packages (`make peers`)."""

from pathlib import Path

import pytest
from driver.programs import Programs

ROOT = Path(__file__).resolve().parents[2] / "build/peers"


def find_peer(name: str) -> list[str]:
    """The start of the argv that runs a server, by its own loader."""
    if not ROOT.exists():
        pytest.fail(f"{ROOT} is missing: make peers")
    return Programs((ROOT.resolve(),)).argv(name)
