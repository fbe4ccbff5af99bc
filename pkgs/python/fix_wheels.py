"""Corrections to others' packages that a node or start-up needs. Each fails loudly when it no longer fits."""

import ast
from pathlib import Path

LAZY = '''"""The package's names, each imported on first access (made by pkgs/python/fix_wheels.py)."""

import importlib

_HOMES = {homes}


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
    return getattr(importlib.import_module(_HOMES[name]), name)
'''

NO_LEGACY = """from __future__ import annotations

import os

os.environ["CRYPTOGRAPHY_OPENSSL_NO_LEGACY"] = "1"  # added by pkgs/python/fix_wheels.py
"""


def fix_pyudev(site: Path) -> None:
    """Open libudev by its name: pyudev calls a compiler and ldconfig for its path, and a node has neither."""
    file = site / "pyudev" / "_ctypeslib" / "utils.py"
    replace(file, "library_name = find_library(name)", 'library_name = f"lib{name}.so.1"')


def fix_pyroute2(site: Path) -> None:
    """Import what is used: the package's own start imports 374 modules, a database among them."""
    file = site / "pyroute2" / "__init__.py"
    homes = {
        name.name: node.module
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pyroute2.")
        for name in node.names
    }
    if "AsyncIPRoute" not in homes:
        raise SystemExit(f"{file}: no longer imports AsyncIPRoute by name; look at fix_pyroute2 again")
    homes["log"] = "pyroute2.config"
    leave_out_mocks(site / "pyroute2" / "netlink" / "rtnl" / "iprsocket.py")
    file.write_text(LAZY.format(homes=repr(dict(sorted(homes.items()))).replace(", ", ",\n    ")))


def leave_out_mocks(file: Path) -> None:
    """Import what only pyroute2's own tests use when it is used: unittest and all it needs is 50 modules."""
    replace(file, "from unittest import mock\n", "")
    replace(file, "from pyroute2.iproute.ipmock import IPEngine\n", "")
    mocked = "            use_socket = IPEngine()"
    imported = "            from pyroute2.iproute.ipmock import IPEngine\n\n"
    replace(file, mocked, imported + mocked)
    replace(file, "mock.Mock()", 'type("Nothing", (), {"__getattr__": lambda *_: lambda *_, **__: None})()')


def fix_cryptography(site: Path) -> None:
    """Leave OpenSSL's legacy algorithms out: nothing uses them, and the image lacks their module."""
    file = site / "cryptography" / "__init__.py"
    replace(file, "from __future__ import annotations\n", NO_LEGACY)


def replace(file: Path, before: str, after: str) -> None:
    """Replace text that must be there."""
    text = file.read_text()
    if before not in text:
        raise SystemExit(f"{file}: does not contain {before!r} any more; look at pkgs/python/fix_wheels.py")
    file.write_text(text.replace(before, after))


FIXES = {"cryptography": fix_cryptography, "pyudev": fix_pyudev, "pyroute2": fix_pyroute2}


def fix_wheels(site: Path) -> None:
    """Apply the corrections to what is there."""
    for package, fix in FIXES.items():
        if (site / package).exists():
            fix(site)
