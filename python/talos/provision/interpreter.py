"""How to start another Python like this one."""

import sys


def interpreter_command(module: str) -> list[str]:
    """The argv that runs a module's ``main`` in an interpreter like this one, with the same path.

    Neither the environment nor a working directory adds to that path. Bytecode is read and written where this
    one does.
    """
    path = [entry for entry in sys.path if entry]
    code = f"import sys; sys.path[:] = {path!r}; from {module} import main; main()"
    cache = ["-B"] if sys.dont_write_bytecode else []
    if sys.pycache_prefix:
        cache += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    return [sys.executable, "-I", "-S", *cache, "-c", code]
