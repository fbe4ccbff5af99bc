"""How to start another Python like this one."""

import sys
from pathlib import Path


def interpreter_command() -> list[str]:
    """The words that start this interpreter again, with the loader when it was started through one.

    The workstation's programs come with their own C library and are started as
    ``ld-linux.so --library-path … python …``: the interpreter alone would not run.
    """
    executable = Path("/proc/self/exe").resolve()
    if not executable.name.startswith("ld-"):
        return [sys.executable]
    words = Path("/proc/self/cmdline").read_bytes().decode().split("\0")
    return [str(executable), *loader_words(words)]


def loader_words(words: list[str]) -> list[str]:
    """The loader's options and its program, from a command line that begins with the loader."""
    with_value = {
        "--library-path",
        "--argv0",
        "--preload",
        "--audit",
        "--inhibit-rpath",
        "--glibc-hwcaps-prepend",
    }
    position = 1
    while words[position].startswith("--"):
        position += 2 if words[position] in with_value else 1
    return words[1 : position + 1]
