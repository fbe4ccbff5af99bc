"""What Kubernetes is given to run the controller: the kind of its policies, its accounts, its pod, its page.

The schema is made of the declaration of the policy's settings: the API refuses what the controller would.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from talos.api.metadata import ETCD_BACKUP, READER, UPGRADE
from talos.config.schema import Field, Form, Section, Shape, fields_of
from talos.kubernetes.access import POD_FOLDER
from talos.talosctl.output.yaml_text import dump_yaml
from talos.upgrade_controller.config import Policy

PROGRAM = "upgrade-controller"
GROUP, VERSION, KIND, PLURAL = "talos.dev", "v1alpha1", "UpgradePolicy", "upgradepolicies"
NAMESPACE = "talos-upgrade"
ROLE, SNAPSHOT_ROLE = UPGRADE, ETCD_BACKUP
TALOSCONFIG = "/var/run/secrets/talos.dev/config"
"""Where a container finds the talosconfig of its account."""
PAGE, PAGE_PORT = f"{PROGRAM}-page", 8080
"""The account that the page reads the nodes with, and the pod's port that it is at."""
METRICS_PORT = 9190
"""The pod's port that Prometheus finds the metrics of snapshots at."""
USER = 65532
MAX_LENGTH, MAX_ITEMS = 4096, 64
"""Characters of a text and items of a list."""
TEXT = {"type": "string"}
LABELS = {"app.kubernetes.io/name": PROGRAM}
TOKEN = (
    {"serviceAccountToken": {"path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
)
"""What Kubernetes puts into each container by default."""
type Manifest = dict[str, Any]


def format_manifests(image: str, *, snapshots: bool = False) -> str:
    """All of them as YAML, in the order in which they are applied."""
    roles = (ROLE, SNAPSHOT_ROLE) if snapshots else (ROLE,)
    found = (
        make_namespace(),
        make_kind(),
        make_talos_account(PROGRAM, roles),
        make_talos_account(PAGE, (READER,)),
        *make_account(),
        make_service(),
        make_deployment(image),
    )
    return "---\n".join(map(dump_yaml, found))


def make_namespace() -> Manifest:
    """The namespace, where no pod may have more than it needs."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def make_kind() -> Manifest:
    """The kind of policies."""
    columns = [
        {"name": name, "type": "string", "jsonPath": path}
        for name, path in (
            ("Channel", ".spec.channel.image"),
            ("State", ".status.state"),
            ("Release", ".status.release.version"),
            ("Snapshot", ".status.snapshot.time"),
            ("Reason", ".status.reason"),
        )
    ]
    either = [{"required": ["channel"]}, {"required": ["snapshots"]}]
    properties = {"spec": {**make_schema(Policy), "anyOf": either}, "status": _make_status()}
    version: Manifest = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": properties}},
    }
    names = {"plural": PLURAL, "singular": KIND.lower(), "kind": KIND, "shortNames": ["tup"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def make_schema(section: type[Section]) -> Manifest:
    """The schema of a section's settings."""
    fields = fields_of(section)
    required = [key for key, field in fields.items() if field.required]
    properties = {key: _make_property(field) for key, field in fields.items()}
    return {"type": "object", **({"required": required} if required else {}), "properties": properties}


def _make_property(field: Field) -> Manifest:
    return {"description": field.setting.doc, **_make_value(field, field.shape)}


def _make_value(field: Field, shape: Shape) -> Manifest:
    match shape.form:
        case Form.SECTION:
            return make_schema(shape.type)
        case Form.LIST:
            assert shape.item is not None
            minimum = {"minItems": 1} if field.required else {}
            return {
                "type": "array",
                "maxItems": MAX_ITEMS,
                **minimum,
                "items": _make_value(field, shape.item),
            }
        case Form.MAP:
            return {
                "type": "object",
                "maxProperties": MAX_ITEMS,
                "additionalProperties": {**TEXT, "maxLength": MAX_LENGTH},
            }
        case _:
            pass
    if shape.type is bool:
        return {"type": "boolean"}
    if shape.type is int:
        minimum, maximum = field.setting.bounds or (0, 1 << 31)
        return {"type": "integer", "minimum": minimum, "maximum": maximum}
    values = {"enum": list(field.setting.allowed)} if field.setting.allowed else {"maxLength": MAX_LENGTH}
    return {**TEXT, **values}


def _make_status() -> Manifest:
    texts = {"type": "object", "additionalProperties": TEXT}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties: Mapping[str, Manifest] = {
        **dict.fromkeys(("state", "reason", "time", "channel"), TEXT),
        **dict.fromkeys(("release", "held", "begun", "snapshot"), texts),
        "nodes": {"type": "array", "items": texts},
        "upgrade": anything,
        "observedGeneration": {"type": "integer"},
    }
    return {"type": "object", "properties": properties}


def make_talos_account(name: str, roles: Sequence[str]) -> Manifest:
    """An account for the nodes' API; a Secret of its name gets the talosconfig."""
    return {**_make_head(f"{GROUP}/{VERSION}", "ServiceAccount", name), "spec": {"roles": list(roles)}}


def make_account() -> list[Manifest]:
    """The account for the API of Kubernetes: what it needs in its namespace, and nothing beyond it."""
    rights = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [GROUP], "resources": [f"{PLURAL}/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]
    subject = {"kind": "ServiceAccount", "name": PROGRAM, "namespace": NAMESPACE}
    binding = {
        "roleRef": {"apiGroup": rights, "kind": "Role", "name": PROGRAM},
        "subjects": [subject],
    }
    return [
        _make_head("v1", "ServiceAccount"),
        {**_make_head(f"{rights}/v1", "Role"), "rules": rules},
        {**_make_head(f"{rights}/v1", "RoleBinding"), **binding},
    ]


def make_service() -> Manifest:
    """The page's name for the API server's proxy and for kubectl, the metrics' for Prometheus."""
    ports = [
        {"name": name, "port": port, "targetPort": name}
        for name, port in (("page", PAGE_PORT), ("metrics", METRICS_PORT))
    ]
    return {**_make_head("v1", "Service"), "spec": {"selector": LABELS, "ports": ports}}


def make_deployment(image: str) -> Manifest:
    """One pod: two would wait for each other's locks. It goes where there is room, the control plane too.

    The page is a container of its own: who breaks into it finds neither the role that upgrades nodes nor
    a token of Kubernetes. Where nodes do not allow its account there is no Secret: it shows that, and waits.
    """
    token = {"name": "token", "mountPath": str(POD_FOLDER), "readOnly": True}
    controller = _make_container(PROGRAM, "policies", image, "talos")
    controller["volumeMounts"].append(token)
    controller["ports"] = [{"name": "metrics", "containerPort": METRICS_PORT}]
    page = _make_container("page", "page", image, "page")
    page["ports"] = [{"name": "page", "containerPort": PAGE_PORT}]
    spec = {
        "serviceAccountName": PROGRAM,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "containers": [controller, page],
        "volumes": [
            {"name": "talos", "secret": {"secretName": PROGRAM}},
            {"name": "page", "secret": {"secretName": PAGE, "optional": True}},
            {"name": "token", "projected": {"sources": list(TOKEN)}},
        ],
    }
    return {
        **_make_head("apps/v1", "Deployment"),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": spec},
        },
    }


def _make_container(name: str, command: str, image: str, secret: str) -> Manifest:
    return {
        "name": name,
        "image": image,
        "args": [command, "--talosconfig", TALOSCONFIG],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": secret, "mountPath": TALOSCONFIG.rpartition("/")[0], "readOnly": True}],
    }


def _make_head(version: str, kind: str, name: str = PROGRAM) -> Manifest:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
