"""The script that iPXE runs first: it sets the arguments, then goes on with the one beside the kernel."""

from collections.abc import Sequence

from talos.system.errors import UserError

ASSETS = "assets"
"""Below it the web server has the folder with the kernel."""
CONFIG = "config"
"""Where the web server has machine configs."""
IDENTITY = {
    "mac": "${mac}",
    "uuid": "${uuid}",
    "serial": "${serial:uristring}",
    "hostname": "${hostname:uristring}",
}
"""What a machine is known by, as iPXE writes it; ``mac`` is the card that it boots from."""


def make_config_url(base: str) -> str:
    """The default address of a machine's config, with variables that iPXE fills in."""
    return f"{base}/{CONFIG}?" + "&".join(f"{name}={variable}" for name, variable in IDENTITY.items())


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
