"""``talosctl gen``: what can be made without a node."""

from talos.talosctl.cli.command import Command, Lazy
from talos.talosctl.cli.flag import Flag, Type

_HERE = "talos.talosctl.commands."

COMMAND = Command(
    name="gen",
    summary="Generate secrets, configurations, keys and certificates",
    inherited=(
        Flag(name="force", short="f", type=Type.BOOL, default="false", help="overwrite existing files"),
    ),
    commands=(
        Lazy("ca", (), "Make a certificate authority", _HERE + "gen_certificates:CA"),
        Lazy("config", (), "Make the configurations of a cluster", _HERE + "gen_config"),
        Lazy("crt", (), "Sign a certificate request", _HERE + "gen_certificates:CRT"),
        Lazy("csr", (), "Make a certificate request", _HERE + "gen_certificates:CSR"),
        Lazy("key", (), "Make an Ed25519 key", _HERE + "gen_certificates:KEY"),
        Lazy(
            "keypair",
            (),
            "Make a key and a certificate that it signs itself",
            _HERE + "gen_certificates:KEYPAIR",
        ),
        Lazy(
            "secureboot",
            (),
            "Make keys for Secure Boot and encrypted disks",
            _HERE + "gen_secureboot",
        ),
        Lazy("secrets", (), "Make the secrets of a cluster", _HERE + "gen_secrets"),
    ),
)
