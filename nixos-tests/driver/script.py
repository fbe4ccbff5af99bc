"""A test's file: its title, its assets, its machines, and the function that is the test."""

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from driver.failure import VmTestError
from driver.node import Node

if TYPE_CHECKING:
    from driver.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What was found in the file."""

    name: str
    title: str
    nodes: Mapping[str, Node]
    test: "Callable[[World], None]"


def load_script(path: Path, name: str | None = None) -> Script:
    """Load a test: ``<name>.py``, or ``test.py`` in a folder ``<name>``, with NODES and test(world)."""
    file = path / "test.py" if path.is_dir() else path
    spec = importlib.util.spec_from_file_location("vm_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    nodes, test = getattr(module, "NODES", None), getattr(module, "test", None)
    if not isinstance(nodes, dict) or not callable(test):
        raise VmTestError(f"{file}: a test has NODES, a dictionary of Node, and a function test(world)")
    return Script(
        name=name or path.stem,
        title=(module.__doc__ or file.stem).strip().splitlines()[0],
        nodes=cast("Mapping[str, Node]", nodes),
        test=cast("Callable[[World], None]", test),
    )
