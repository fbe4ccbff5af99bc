"""What Python generates while modules load, kept by the build: a third of the time of a start's imports.

Methods of data classes and of attrs' classes are written as source and compiled; regular expressions are
compiled, too. The build records the results (`modules/rootfs/record.py`) in a bundle, under a digest of
all that it depends on: what is not found there is generated as usual.
"""

import builtins
import importlib
import marshal
from _blake2 import blake2b  # hashlib loads OpenSSL, which is not needed this early
from collections.abc import Callable, Sequence
from types import CodeType, SimpleNamespace
from typing import Any

from talos.startup.bundle import find_object

PREFIX = "generated:"
"""Of the names in a bundle; no module is called so."""

type CompileSource = Callable[[str, str, str], CodeType]
type CompilePattern = Callable[[Any, int], Any]


def _name(*inputs: object) -> str:
    return PREFIX + blake2b(repr(inputs).encode(), digest_size=16).hexdigest()


def use_generated() -> None:
    """Look into the installed bundles from now on."""
    compiler = _variables("re._compiler")
    engine, generate = compiler["_sre"], compiler["compile"]

    def compile_source(source: str, filename: str, mode: str) -> CodeType:
        return find_object(_name(source, filename)) or builtins.compile(source, filename, mode)

    def compile_pattern(pattern: Any, flags: int = 0) -> Any:
        found = find_object(_name(pattern, int(flags))) if isinstance(pattern, str | bytes) else None
        return generate(pattern, flags) if found is None else engine.compile(pattern, *found)

    _replace(compile_source, compile_pattern)


def record() -> dict[str, bytes]:
    """What is generated from now on, marshalled, by its name; for the build."""
    recorded: dict[str, bytes] = {}
    compiler = _variables("re._compiler")
    engine, generate = compiler["_sre"], compiler["compile"]

    def compile_source(source: str, filename: str, mode: str) -> CodeType:
        code = builtins.compile(source, filename, mode)
        recorded[_name(source, filename)] = marshal.dumps(code)
        return code

    def compile_pattern(pattern: Any, flags: int = 0) -> Any:
        def take(_: Any, all_flags: int, code: Sequence[int], groups: int, *names: Any) -> Any:
            parts = (int(all_flags), [int(number) for number in code], groups, *names)
            recorded[_name(pattern, int(flags))] = marshal.dumps(parts)
            return engine.compile(pattern, *parts)

        if not isinstance(pattern, str | bytes):
            return generate(pattern, flags)
        compiler["_sre"] = SimpleNamespace(**vars(engine) | {"compile": take})
        try:
            return generate(pattern, flags)
        finally:
            compiler["_sre"] = engine

    _replace(compile_source, compile_pattern)
    return recorded


def _replace(compile_source: CompileSource, compile_pattern: CompilePattern) -> None:
    """Take the place of the built-in functions that these modules generate with."""

    def execute(source: str, variables: dict[str, Any], local: dict[str, Any]) -> None:
        exec(compile_source(source, "<string>", "exec"), variables, local)  # noqa: S102 - the library's source

    _variables("dataclasses")["exec"] = execute
    _variables("attr._make")["compile"] = compile_source
    _variables("re._compiler")["compile"] = compile_pattern


def _variables(module: str) -> dict[str, Any]:
    return vars(importlib.import_module(module))
