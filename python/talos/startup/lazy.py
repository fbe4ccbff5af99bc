"""Modules that are imported for what hardly ever happens: they are loaded when something in them is used.

protobuf imports its implementation in Python beside the compiled one, and with it half a dozen modules of
the standard library; ``inspect`` imports the parsers of source code; archives are made for a few calls.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import LazyLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

LAZY_MODULES = frozenset({"ast", "google.protobuf.internal.python_message", "tarfile", "tokenize", "tomllib"})


class LazyFinder:
    """Finds the modules through the other finders and delays their loading."""

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> ModuleSpec | None:
        """The spec of one of the modules, None for any other."""
        if name not in LAZY_MODULES:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = LazyLoader(spec.loader)
                return spec
        return None


def delay_seldom_used() -> None:
    """Delay their loading from now on."""
    sys.meta_path.insert(0, LazyFinder())
