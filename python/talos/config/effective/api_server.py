"""The effective settings of the API server that are no arguments of it."""

from talos.config.documents.kubernetes.admission_control import KubeAdmissionControlConfig
from talos.config.documents.kubernetes.api_server import KubeAPIServerConfig
from talos.config.documents.kubernetes.audit_policy import KubeAuditPolicyConfig
from talos.config.documents.kubernetes.authentication import KubeAuthenticationConfig
from talos.config.documents.kubernetes.authorizer import KubeAuthorizerConfig
from talos.config.effective.sections import find_cluster
from talos.config.model import Config
from talos.config.values import NOTHING, Unstructured


def admission_plugins(config: Config) -> list[tuple[str, Unstructured]]:
    """Configured admission plugins by name."""
    documents = config.find_all(KubeAdmissionControlConfig)
    if documents:
        return [(document.name, document.configuration or {}) for document in documents]
    main = find_cluster(config).api_server
    return [(plugin.name, plugin.configuration) for plugin in (main and main.admission_control) or ()]


def audit_policy(config: Config) -> Unstructured:
    """What the API server records."""
    document, main = config.find(KubeAuditPolicyConfig), find_cluster(config).api_server
    chosen = document.configuration if document else main.audit_policy if main else None
    default = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    return chosen or default


def authentication(config: Config) -> Unstructured:
    """The API server's AuthenticationConfiguration; empty when there is none."""
    document = config.find(KubeAuthenticationConfig)
    return (document and document.configuration) or NOTHING


def authorizers(config: Config) -> list[tuple[str, str, Unstructured]]:
    """The API server's authorizers in order: type, name, webhook. Node and RBAC are always there."""
    documents = config.find_all(KubeAuthorizerConfig)
    main = find_cluster(config).api_server
    chosen = [(one.type or "", one.name, one.webhook or NOTHING) for one in documents] or [
        (one.type, one.name, one.webhook or NOTHING) for one in (main and main.authorization_config) or ()
    ]
    types = {kind for kind, _, _ in chosen}
    needed = [("Node", "node", NOTHING), ("RBAC", "rbac", NOTHING)]
    return [*(one for one in needed if one[0] not in types), *chosen]


def has_startup_probes(config: Config) -> bool:
    """Whether the API server has a time in which it is not killed for being slow."""
    document = config.find(KubeAPIServerConfig)
    return document is None or document.startup_probes is not False


def cert_sans(config: Config) -> tuple[str, ...]:
    """Further names and addresses in the API server's certificate."""
    document, main = config.find(KubeAPIServerConfig), find_cluster(config).api_server
    return (document.cert_extra_sans if document else main.cert_sans if main else None) or ()
