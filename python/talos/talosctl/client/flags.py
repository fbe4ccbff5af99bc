"""The flags of every command that talks to a node."""

from talos.system.errors import UserError
from talos.talosctl.cli.flag import Flag, Flags, Type

GROUPS = ("@all", "@controlplane", "@workers", "@label=")
CLIENT_FLAGS = (
    Flag(name="talosconfig", help="the client configuration file; without it the usual places are searched"),
    Flag(name="context", help="the context of the client configuration to use instead of the current one"),
    Flag(
        name="nodes",
        short="n",
        type=Type.STRINGS,
        suggestions=GROUPS,
        help="the nodes to call, instead of the context's: addresses, names, @all, @controlplane, @workers, "
        "@label=KEY or @label=KEY=VALUE",
    ),
    Flag(
        name="endpoints",
        short="e",
        type=Type.STRINGS,
        help="the endpoints to connect to, instead of the context's",
    ),
    Flag(name="cluster", short="c", help="the cluster to connect to when the endpoint is a proxy of many"),
    Flag(name="siderov1-keys-dir", help="the folder of SideroV1 keys, by default ~/.talos/keys"),
)

FINGERPRINT = Flag(
    name="cert-fingerprint",
    type=Type.STRINGS,
    help="with --insecure: only accept certificates with these fingerprints",
)
INSECURE = Flag(
    name="insecure",
    short="i",
    type=Type.BOOL,
    help="talk to a node in maintenance mode: without authentication",
)
INSECURE_FLAGS = (INSECURE, FINGERPRINT)

OUTPUT = Flag(
    name="output",
    short="o",
    choices=("table", "json", "yaml"),
    default="table",
    help="how to show the rows: table, json or yaml",
)
OUTPUT_WITHOUT_SHORT = Flag(name="output", choices=OUTPUT.choices, default=OUTPUT.default, help=OUTPUT.help)

NAMESPACES = ("system", "cri")
DRIVER = Flag(
    name="kubernetes",
    short="k",
    type=Type.BOOL,
    help="look at Kubernetes' containers instead of the system's",
    hidden=True,
    deprecated="use --namespace cri instead",
)
NAMESPACE = Flag(
    name="namespace",
    suggestions=NAMESPACES,
    default="system",
    help="whose containers: system, or with cri Kubernetes'",
)
CONTAINER_FLAGS = (DRIVER, NAMESPACE)
CONTAINER_EXCLUSIVE = (DRIVER.name, NAMESPACE.name)


def is_kubernetes(flags: Flags) -> bool:
    """Whether Kubernetes' containers are meant, by either of CONTAINER_FLAGS; UserError."""
    namespace = flags.text(NAMESPACE.name)
    if namespace not in NAMESPACES:
        raise UserError(f'"{namespace}" has no containers', where="--namespace", hint="system or cri")
    return flags.is_set(DRIVER.name) or namespace == "cri"


MODE_CHOICES = ("auto", "no-reboot", "staged", "try")
CONFIG_CHANGE_FLAGS = (
    Flag(name="mode", short="m", choices=MODE_CHOICES, default="auto", help="how to apply the change"),
    Flag(
        name="timeout",
        type=Type.DURATION,
        default="1m0s",
        help="with --mode=try: when to go back to the old configuration",
    ),
    Flag(name="dry-run", type=Type.BOOL, default="false", help="only show what the change would do"),
)
