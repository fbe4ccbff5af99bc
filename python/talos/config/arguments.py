"""Arguments of Kubernetes' programs: which of them the user may set, add to, or not change at all.

What the user gives replaces the system's value, but for two groups: some are joined with it, such as the
admission plugins, and some are refused, since the node's own parts agree on them. The table is upstream's:
https://github.com/siderolabs/talos, controllers/k8s/control_plane_final.go and kubelet_spec.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from talos.config.static_pods import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from talos.config.values import Args
from talos.system.errors import UserError

type Arguments = Mapping[str, Sequence[str]]

KUBELET, PROXY = "kubelet", "kube-proxy"

AUTHORIZATION_MODE, AUTHORIZATION_WEBHOOK = "authorization-mode", "authorization-webhook-"
"""With one of these, the API server's authorizers are arguments and no file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Names of a program's arguments that are joined with the system's value, and of those refused."""

    additive: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()


RULES: Mapping[str, Rules] = {
    API_SERVER: Rules(
        additive=frozenset({"enable-admission-plugins", "feature-gates", AUTHORIZATION_MODE}),
        denied=frozenset({
            "authorization-config", "client-ca-file", "encryption-provider-config", "etcd-cafile",
            "etcd-certfile", "etcd-keyfile", "etcd-servers", "kubelet-client-certificate",
            "kubelet-client-key", "proxy-client-cert-file", "proxy-client-key-file",
            "requestheader-client-ca-file", "service-account-key-file", "service-account-signing-key-file",
            "tls-cert-file", "tls-min-version", "tls-private-key-file",
        }),
    ),
    CONTROLLER_MANAGER: Rules(
        additive=frozenset({"controllers", "service-cluster-ip-range"}),
        denied=frozenset({
            "authentication-kubeconfig", "authorization-kubeconfig", "cluster-signing-cert-file",
            "cluster-signing-key-file", "root-ca-file", "service-account-private-key-file",
        }),
    ),
    SCHEDULER: Rules(
        denied=frozenset({"authentication-kubeconfig", "authorization-kubeconfig", "config", "kubeconfig"}),
    ),
    PROXY: Rules(denied=frozenset({"config", "kubeconfig"})),
    KUBELET: Rules(
        denied=frozenset({
            "bootstrap-kubeconfig", "cert-dir", "config", "container-runtime", "container-runtime-endpoint",
            "kubeconfig",
        }),
    ),
}  # fmt: skip

KUBELET_FIELDS = frozenset({
    "apiVersion", "authentication", "authorization", "cgroupRoot", "kind", "kubeletCgroups", "port",
    "protectKernelDefaults", "readOnlyPort", "resolvConf", "rotateCertificates", "seccompDefault",
    "staticPodPath", "systemCgroups",
})  # fmt: skip
"""Of the kubelet's configuration, what users do not set; ``readOnlyPort`` needs no certificates."""

IMAGE_SERVICE, IMAGE_SERVICE_ARGUMENT = "imageServiceEndpoint", "image-service-endpoint"
"""The kubelet's setting and its argument that the system sets while images are held to rules."""


def find_denied(program: str, names: Sequence[str]) -> list[str]:
    """The arguments that may not be given."""
    return [name for name in names if name in RULES[program].denied]


def find_fixed(fields: Mapping[str, object]) -> list[str]:
    """The fields of a kubelet's configuration that may not be given."""
    return [name for name in fields if name in KUBELET_FIELDS]


def merge_arguments(program: str, defaults: Arguments, extra: Arguments) -> dict[str, Sequence[str]]:
    """The system's arguments with the user's.

    UserError: one of the user's is refused.
    """
    for name in find_denied(program, list(extra)):
        raise UserError(f'extra arg "{name}" is not allowed', where=program, hint="remove it from extraArgs")
    merged = {**defaults, **extra}
    for name in RULES[program].additive & defaults.keys() & extra.keys():
        merged[name] = [_join([*defaults[name], *extra[name]])]
    return merged


def make_lists(args: Args) -> dict[str, Sequence[str]]:
    """Arguments with the values of each as a list."""
    return {name: (value,) if isinstance(value, str) else value for name, value in args.items()}


def format_arguments(arguments: Arguments) -> list[str]:
    """``--name=value`` for each value, sorted by name."""
    return [f"--{name}={value}" for name, values in sorted(arguments.items()) for value in values]


def _join(values: Sequence[str]) -> str:
    parts = [part.strip() for value in values for part in value.split(",")]
    return ",".join(dict.fromkeys(filter(None, parts)))
