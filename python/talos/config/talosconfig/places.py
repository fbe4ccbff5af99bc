"""Where the client's file is looked for, and how it is opened and saved.

    locations(environ) -> list[Location]                    in the order of the search
    open_talosconfig(path or "", environ) -> (TalosConfig, Path)
    save(config, path)                                      file 0600, directory 0700

A file in talosctl's own form is opened without importing the YAML reader.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from talos.config.talosconfig.model import TalosConfig
from talos.config.talosconfig.text import format_talosconfig, parse_talosconfig
from talos.system.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place where the file may be."""

    path: Path
    writable: bool = True


SERVICE_ACCOUNT_PATH = Path("/var/run/secrets/talos.dev/config")
"""Where a pod with access to the node's API finds its file."""


def locations(environ: Mapping[str, str] = os.environ) -> list[Location]:
    """Where the file is looked for, first to last.

    ``$XDG_CONFIG_HOME/talos/config.yaml`` comes first, but only when it exists.
    """
    found: list[Location] = []
    home = Path(environ["HOME"]) if environ.get("HOME") else Path("/")
    xdg = environ.get("XDG_CONFIG_HOME", "")
    if xdg.startswith("/") and (path := Path(xdg, "talos", "config.yaml")).exists():
        found.append(Location(path=path))
    if environ.get("TALOSCONFIG"):
        found.append(Location(path=Path(environ["TALOSCONFIG"])))
    talos_home = environ.get("TALOS_HOME", "")
    folder = Path(talos_home) if talos_home.startswith("/") else home / ".talos"
    found.append(Location(path=folder / "config"))
    found.append(Location(path=SERVICE_ACCOUNT_PATH, writable=False))
    return found


def find_talosconfig(explicit: str = "", environ: Mapping[str, str] = os.environ) -> Path:
    """The file to use: the explicit one, the first that exists, or the first writable place."""
    if explicit:
        return Path(explicit)
    places = locations(environ)
    existing = next((place.path for place in places if place.path.exists()), None)
    return existing or next(place.path for place in places if place.writable)


def open_talosconfig(explicit: str = "", environ: Mapping[str, str] = os.environ) -> tuple[TalosConfig, Path]:
    """Read the file; one that does not exist is empty, and not made before something is saved in it.

    ConfigError: when its content is wrong.
    UserError: when it can't be read.
    """
    path = find_talosconfig(explicit, environ)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return TalosConfig(source=str(path)), path
    except OSError as error:
        raise UserError(f"can't be read: {error.strerror}", where=str(path)) from error
    return parse_talosconfig(text, source=str(path)), path


def save(config: TalosConfig, path: Path) -> None:
    """Write the file whole or not at all, for its owner only.

    UserError: when it can't be written.
    """
    # Only commands that change the file load what writing takes.
    from talos.system.files import replace_file

    replace_file(path.resolve(), format_talosconfig(config).encode(), mode=0o600, folder_mode=0o700)
