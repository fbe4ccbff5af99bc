"""The script that iPXE runs first: it sets the arguments, then goes on with the one beside the kernel."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from talos.system.errors import UserError

ASSETS = "assets"
"""Below it the web server has the folder with the kernel."""
CONFIG = "config"
"""Where the web server has machine configs."""
START = "start"
"""Where the web server has the script of one machine, with the place of its config."""
TOKEN = "token"  # noqa: S105 - the name of a field
"""Of a request for a config: it is in that script only."""
IDENTITY = {
    "mac": "${mac}",
    "uuid": "${uuid}",
    "serial": "${serial:uristring}",
    "hostname": "${hostname:uristring}",
}
"""What a machine is known by, as iPXE writes it; ``mac`` is the card that it boots from."""


def make_config_url(base: str, query: Mapping[str, str], token: str) -> str:
    """The address of the config of a machine that has requested its script."""
    known = {name: query[name] for name in IDENTITY if query.get(name)}
    return f"{base}/{CONFIG}?{urlencode(known | {TOKEN: token})}"


def make_first_script(base: str) -> str:
    """The script with which a machine requests its own; iPXE fills in what it has found out of it."""
    query = "&".join(f"{name}={variable}" for name, variable in IDENTITY.items())
    return f"#!ipxe\nchain --replace {base}/{START}?{query}\n"


def make_script(arguments: Sequence[str], config_url: str = "") -> str:
    """The script; ``arguments`` are the kernel's, added to those of the image."""
    given = [*([f"talos.config={config_url}"] if config_url else []), *arguments]
    for word in given:
        if not word or any(character.isspace() for character in word):
            raise UserError(
                f"{word!r} can't be a kernel argument", where="--argument", hint="no blanks in it"
            )
    return "\n".join(
        [
            "#!ipxe",
            f"set arguments {' '.join(given)}".rstrip(),
            f"chain --replace {ASSETS}/boot.ipxe",
            "",
        ]
    )
