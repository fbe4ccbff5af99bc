"""The arguments of the control plane's programs: the system's with what the user gives."""

from collections.abc import Mapping, Sequence

from talos.api.definitions.k8s_pb2 import (
    APIServerConfigSpec,
    ArgValues,
    ControllerManagerConfigSpec,
    SchedulerConfigSpec,
)
from talos.api.definitions.secrets_pb2 import KubernetesRootSpec
from talos.config.arguments import (
    AUTHORIZATION_MODE,
    AUTHORIZATION_WEBHOOK,
    Arguments,
    format_arguments,
    merge_arguments,
)
from talos.config.static_pods import API_SERVER, CONFIGS, CONTROLLER_MANAGER, SCHEDULER, SECRETS

AUDIT_LOGS = "/var/log/audit/kube"


def make_command(program: str, arguments: Arguments) -> list[str]:
    """The program and its arguments as they are started."""
    return [f"/usr/local/bin/{program}", *format_arguments(arguments)]


def make_arguments(
    program: str, defaults: Mapping[str, str | Sequence[str]], extra: Mapping[str, ArgValues]
) -> dict[str, Sequence[str]]:
    """Defaults with what the user gives.

    UserError: an argument that is the system's alone.
    """
    ours = {name: [value] if isinstance(value, str) else value for name, value in defaults.items()}
    return merge_arguments(program, ours, {name: list(found.values) for name, found in extra.items()})


def make_account_arguments(root: KubernetesRootSpec) -> dict[str, Sequence[str]]:
    """The API server's arguments about tokens of service accounts."""
    return {
        "api-audiences": [",".join(root.api_audiences)],
        "service-account-issuer": [root.issuer_url, *root.accepted_issuers],
    }


def make_api_server_arguments(
    spec: APIServerConfigSpec, accounts: Mapping[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    """kube-apiserver. ``accounts`` are the arguments about tokens. UserError as of :func:`make_arguments`."""
    secrets, configs = f"{SECRETS}/{API_SERVER}", f"{CONFIGS}/{API_SERVER}"
    defaults: dict[str, str | Sequence[str]] = {
        "admission-control-config-file": f"{configs}/admission-control-config.yaml",
        **({"advertise-address": spec.advertised_address} if spec.advertised_address else {}),
        "allow-privileged": "true",
        "audit-log-maxage": "30",
        "audit-log-maxbackup": "10",
        "audit-log-maxsize": "100",
        "audit-log-path": f"{AUDIT_LOGS}/kube-apiserver.log",
        "audit-policy-file": f"{configs}/auditpolicy.yaml",
        "authorization-config": f"{configs}/authorization-config.yaml",
        "bind-address": "0.0.0.0",  # noqa: S104 - it serves the whole cluster
        "client-ca-file": f"{secrets}/ca.crt",
        "enable-admission-plugins": "NodeRestriction",
        "enable-bootstrap-token-auth": "true",
        "encryption-provider-config": f"{secrets}/encryptionconfig.yaml",
        "etcd-cafile": f"{secrets}/etcd-client-ca.crt",
        "etcd-certfile": f"{secrets}/etcd-client.crt",
        "etcd-keyfile": f"{secrets}/etcd-client.key",
        "etcd-servers": ",".join(spec.etcd_servers),
        "kubelet-client-certificate": f"{secrets}/apiserver-kubelet-client.crt",
        "kubelet-client-key": f"{secrets}/apiserver-kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
        "profiling": "false",
        "proxy-client-cert-file": f"{secrets}/front-proxy-client.crt",
        "proxy-client-key-file": f"{secrets}/front-proxy-client.key",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-client-ca-file": f"{secrets}/aggregator-ca.crt",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "secure-port": str(spec.local_port),
        "service-account-key-file": f"{secrets}/service-account.pub",
        "service-account-signing-key-file": f"{secrets}/service-account.key",
        "service-cluster-ip-range": ",".join(spec.service_cid_rs),
        # Else it listens no more and waits for its watches until the kubelet kills it, 30 s later.
        "shutdown-watch-termination-grace-period": "5s",
        "tls-cert-file": f"{secrets}/apiserver.crt",
        "tls-min-version": "VersionTLS13",
        "tls-private-key-file": f"{secrets}/apiserver.key",
        **accounts,
    }
    if spec.use_authentication_config:
        defaults["authentication-config"] = f"{configs}/authentication-config.yaml"
    else:
        defaults["anonymous-auth"] = "false"
    if any(name.startswith((AUTHORIZATION_MODE, AUTHORIZATION_WEBHOOK)) for name in spec.extra_args):
        del defaults["authorization-config"]
        defaults[AUTHORIZATION_MODE] = "Node,RBAC"
    return make_arguments(API_SERVER, defaults, spec.extra_args)


def make_controller_manager_arguments(spec: ControllerManagerConfigSpec) -> dict[str, Sequence[str]]:
    """kube-controller-manager. UserError as of :func:`make_arguments`."""
    secrets = f"{SECRETS}/{CONTROLLER_MANAGER}"
    defaults: dict[str, str | Sequence[str]] = {
        "allocate-node-cidrs": "true",
        "authentication-kubeconfig": f"{secrets}/kubeconfig",
        "authorization-kubeconfig": f"{secrets}/kubeconfig",
        "bind-address": "127.0.0.1",
        "cluster-cidr": ",".join(spec.pod_cid_rs),
        "cluster-signing-cert-file": f"{secrets}/ca.crt",
        "cluster-signing-key-file": f"{secrets}/ca.key",
        "configure-cloud-routes": "false",
        "controllers": "*,tokencleaner",
        # It makes an account and requests a token for each of its controllers before they start: seven
        # seconds at the twenty requests a second to which it limits itself.
        "kube-api-burst": "200",
        "kube-api-qps": "100",
        "kubeconfig": f"{secrets}/kubeconfig",
        "leader-elect": "true",
        "profiling": "false",
        "root-ca-file": f"{secrets}/root-ca.crt",
        "service-account-private-key-file": f"{secrets}/service-account.key",
        "service-cluster-ip-range": ",".join(spec.service_cid_rs),
        "terminated-pod-gc-threshold": "100",
        "tls-min-version": "VersionTLS13",
        "use-service-account-credentials": "true",
    }
    versions_of_pods = {4 if "." in subnet else 6 for subnet in spec.pod_cid_rs}
    if 4 in versions_of_pods:
        defaults["node-cidr-mask-size-ipv4"] = str(spec.node_cidr_mask_size_i_pv4)
    if 6 in versions_of_pods:
        defaults["node-cidr-mask-size-ipv6"] = str(spec.node_cidr_mask_size_i_pv6)
    return make_arguments(CONTROLLER_MANAGER, defaults, spec.extra_args)


def make_scheduler_arguments(spec: SchedulerConfigSpec) -> dict[str, Sequence[str]]:
    """kube-scheduler. UserError as of :func:`make_arguments`."""
    secrets, configs = f"{SECRETS}/{SCHEDULER}", f"{CONFIGS}/{SCHEDULER}"
    defaults: dict[str, str | Sequence[str]] = {
        "authentication-kubeconfig": f"{secrets}/kubeconfig",
        "authentication-tolerate-lookup-failure": "false",
        "authorization-kubeconfig": f"{secrets}/kubeconfig",
        "bind-address": "127.0.0.1",
        "config": f"{configs}/scheduler-config.yaml",
        "leader-elect": "true",
        "profiling": "false",
        "tls-min-version": "VersionTLS13",
    }
    return make_arguments(SCHEDULER, defaults, spec.extra_args)
