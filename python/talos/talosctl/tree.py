"""All commands, by name; nothing is imported here that a command needs."""

from talos.talosctl.cli.command import Command, Lazy

_COMMANDS = "talos.talosctl.commands."

_ROWS: tuple[tuple[str, str, str], ...] = (
    ("apply-config", "apply", "Give the node a configuration"),
    ("bootstrap", "", "Begin the cluster's etcd on this node"),
    ("cgroups", "cg", "Show the tree of control groups and what they use"),
    ("cluster", "", "Create and destroy local clusters"),
    ("completion", "", "Print a script for the shell's completion"),
    ("config", "", "Show and change the client's configuration"),
    ("conformance", "", "Run conformance tests on the cluster"),
    ("containers", "c", "List the containers of the system or of Kubernetes"),
    ("copy", "cp", "Copy files from the node"),
    ("dashboard", "", "Show figures, processes, logs and the network of nodes in the terminal"),
    ("debug", "", "Run a container on the node to look around with"),
    ("diskfree", "df", "Show how full the volumes are"),
    ("dmesg", "", "Show the kernel's log"),
    ("dns-query", "", "Query DNS servers from the node"),
    ("edit", "", "Change the node's configuration in an editor"),
    ("etcd", "", "Look at and manage etcd"),
    ("events", "", "Show what happens on the node as it happens"),
    ("gen", "", "Generate secrets, configurations, keys and certificates"),
    ("get", "g", "Show resources: what the node is meant to be and what it is"),
    ("health", "", "Check whether the cluster is healthy"),
    ("image", "images", "Look at and manage container images"),
    ("inject", "", "Add what pods need to use the nodes' API"),
    ("inspect", "", "Look at how the node works inside"),
    ("kubeconfig", "", "Get the cluster's admin kubeconfig"),
    ("list", "ls", "List the files of a folder"),
    ("login", "", "Get a certificate for a token of your identity provider"),
    ("logs", "", "Show the log of a service"),
    ("machineconfig", "mc", "Generate and patch configurations"),
    ("memory", "m,free", "Show how much memory is in use"),
    ("meta", "", "Write and delete keys of the META partition"),
    ("metrics", "", "Show or serve the nodes' metrics for Prometheus"),
    ("mounts", "mount", "List what is mounted and how full it is"),
    ("netstat", "ss", "List network connections and sockets"),
    ("patch", "", "Change the node's configuration by a patch"),
    ("pcap", "tcpdump", "Capture packets of a network interface"),
    ("ping", "", "Check whether the node reaches a host by ICMP echo"),
    ("plan", "", "Show what configs, a release or a version of Kubernetes would change on each node"),
    ("processes", "p,ps", "List the running processes"),
    ("read", "cat", "Print a file of the node"),
    ("reboot", "", "Reboot the node"),
    ("reset", "", "Wipe the node"),
    ("restart", "", "Restart a container"),
    ("rollback", "", "Go back to the version installed before"),
    ("rotate-ca", "", "Replace the CAs of the nodes' API and of Kubernetes by new ones"),
    ("service", "services", "Show and control the node's services"),
    ("shutdown", "", "Shut the node down"),
    ("stats", "", "Show what each container uses"),
    ("support", "", "Collect logs, resources and states of nodes into an archive"),
    ("time", "", "Compare the node's clock with a time server"),
    ("traceroute", "", "Show the routers between the node and a host"),
    ("upgrade", "", "Install another version on the node"),
    ("upgrade-k8s", "", "Upgrade Kubernetes in the whole cluster"),
    ("usage", "du", "Show how much space files use"),
    ("validate", "", "Check a configuration"),
    ("version", "", "Show the client's and the nodes' versions"),
    ("wipe", "", "Wipe disks, volumes and arrays"),
)


_PLACES = {
    "containers": "containers:CONTAINERS",
    "dmesg": "logs:DMESG",
    "logs": "logs:LOGS",
    "reboot": "power:REBOOT",
    "restart": "containers:RESTART",
    "rollback": "power:ROLLBACK",
    "shutdown": "power:SHUTDOWN",
    "stats": "containers:STATS",
}
"""Where commands are that share a module."""


def _module(name: str) -> str:
    return _COMMANDS + _PLACES.get(name, name.replace("-", "_"))


ROOT = Command(
    name="talosctl",
    summary="Manage nodes and clusters through their API",
    details="talosctl manages nodes and clusters through their API.",
    # Scripts write them before every command, since older clients took them with all of them.
    ignored=("--talosconfig", "--context", "--nodes", "-n", "--endpoints", "-e", "--cluster"),
    commands=(
        *(
            Lazy(name, tuple(aliases.split(",")) if aliases else (), summary, _module(name))
            for name, aliases, summary in _ROWS
        ),
        Lazy("disks", (), "", _COMMANDS + "removed", hidden=True),
        Lazy("interfaces", (), "", _COMMANDS + "removed", hidden=True),
        Lazy("routes", ("route",), "", _COMMANDS + "removed", hidden=True),
    ),
)
