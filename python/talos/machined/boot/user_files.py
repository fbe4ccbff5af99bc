"""Files of the main document, ``machine.files``: written once per boot, when /var is there.

Below /var they are written in place. Another path belongs to the image: the new content lies below /var,
and is bound over the path, read-only.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from talos.config.check.machine import MANIFESTS
from talos.config.documents.v1alpha1.machine import MachineFile
from talos.system.errors import UserError
from talos.system.files import replace_durably
from talos.system.mounts import Mounts

WRITABLE = ("/var", "/run")
"""Where a file that is not there yet can be made; /var/run is a link into the second."""


def write_user_files(files: Sequence[MachineFile], mounts: Mounts, *, root: Path = Path("/")) -> list[str]:
    """Write all of them that can be written; a text for each of the others.

    ``root`` is the folder that their paths are below.
    """
    problems: list[str] = []
    for index, file in enumerate(files):
        try:
            _write(file, mounts, root)
        except (UserError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problems.append(f"machine.files[{index}]: {file.path}: {reason}")
    return problems


def is_writable(path: str) -> bool:
    """Whether a file can be made there."""
    return path.startswith("/var/") or str(Path(path).parent) == MANIFESTS


def _write(file: MachineFile, mounts: Mounts, root: Path) -> None:
    source = root / file.path.lstrip("/")
    if file.op == "create" and not is_writable(file.path):
        raise UserError(f'create operation not allowed outside of /var: "{file.path}"')
    content = file.content.encode()
    if file.op != "create":
        before = _read_existing(source, file.path)
        # What an earlier boot has added to a file on the disk is there already.
        has_it = file.op == "append" and before.endswith(b"\n" + content)
        content = before if has_it else b"\n".join([before, content]) if file.op == "append" else content
    target = source if is_writable(file.path) else root / "var" / file.path.lstrip("/")
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not _is_inside(target.parent.resolve(), root):
        raise UserError("its folder is a link to another place", hint="remove the link")
    mode = file.permissions or 0o644
    replace_durably(target, [content], mode=mode)
    target.chmod(mode)  # whatever the process masks
    if target != source:
        mounts.bind(str(target), str(source), read_only=True)


def _read_existing(path: Path, name: str) -> bytes:
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise UserError(f'file must exist: "{name}"') from None
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"invalid mode: {stat.filemode(status.st_mode)}", hint="a regular file is needed")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read()


def _is_inside(folder: Path, root: Path) -> bool:
    places = [root / place.lstrip("/") for place in (*WRITABLE, MANIFESTS)]
    return any(folder.is_relative_to(place) for place in places)
