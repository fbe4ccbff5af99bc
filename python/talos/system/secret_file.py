"""Content for libraries that read paths only, on no disk where the system allows that."""

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def open_secret_file(content: bytes) -> Generator[str]:
    """The path of a file with this content, which is gone afterwards.

    On Linux it is in memory. Elsewhere it is the user's own, in the folder for temporary files.
    """
    if not hasattr(os, "memfd_create"):
        import tempfile

        with tempfile.NamedTemporaryFile(buffering=0) as file:
            file.write(content)
            yield file.name
        return
    descriptor = os.memfd_create("secret", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        file.write(content)
        yield f"/proc/self/fd/{descriptor}"
