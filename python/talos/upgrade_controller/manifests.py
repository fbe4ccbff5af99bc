"""What Kubernetes is given to run the controller: the kind of its policies, its account, its pod.

The schema is made of the declaration of the policy's settings: the API refuses what the controller would.
"""

from collections.abc import Mapping
from typing import Any

from talos.config.schema import Field, Form, Section, Shape, fields_of
from talos.talosctl.output.yaml_text import dump_yaml
from talos.upgrade_controller.config import Policy

PROGRAM = "upgrade-controller"
GROUP, VERSION, KIND, PLURAL = "talos.dev", "v1alpha1", "UpgradePolicy", "upgradepolicies"
NAMESPACE = "talos-upgrade"
ROLE = "os:upgrade"
TALOSCONFIG = "/var/run/secrets/talos.dev/config"
"""Where the pod finds the talosconfig of its account."""
USER = 65532
MAX_LENGTH, MAX_ITEMS = 4096, 64
"""Characters of a text and items of a list."""
TEXT = {"type": "string"}
type Manifest = dict[str, Any]


def format_manifests(image: str) -> str:
    """All of them as YAML, in the order in which they are applied."""
    found = (make_namespace(), make_kind(), make_talos_account(), *make_account(), make_deployment(image))
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
            ("Reason", ".status.reason"),
        )
    ]
    properties = {"spec": make_schema(Policy), "status": _make_status()}
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
            least = {"minItems": 1} if field.required else {}
            return {"type": "array", "maxItems": MAX_ITEMS, **least, "items": _make_value(field, shape.item)}
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
        least, most = field.setting.bounds or (0, 1 << 31)
        return {"type": "integer", "minimum": least, "maximum": most}
    values = {"enum": list(field.setting.allowed)} if field.setting.allowed else {"maxLength": MAX_LENGTH}
    return {**TEXT, **values}


def _make_status() -> Manifest:
    texts = {"type": "object", "additionalProperties": TEXT}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties: Mapping[str, Manifest] = {
        **dict.fromkeys(("state", "reason", "time", "channel"), TEXT),
        **dict.fromkeys(("release", "held", "begun"), texts),
        "nodes": {"type": "array", "items": texts},
        "upgrade": anything,
        "observedGeneration": {"type": "integer"},
    }
    return {"type": "object", "properties": properties}


def make_talos_account() -> Manifest:
    """The account for the nodes' API; a Secret of its name gets the talosconfig."""
    return {**_make_head(f"{GROUP}/{VERSION}", "ServiceAccount"), "spec": {"roles": [ROLE]}}


def make_account() -> list[Manifest]:
    """The account for the API of Kubernetes: policies and Secrets of the namespace, and nothing beyond it."""
    rights = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [GROUP], "resources": [f"{PLURAL}/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
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


def make_deployment(image: str) -> Manifest:
    """One pod: two would wait for each other's locks. It goes where there is room, the control plane too."""
    container = {
        "name": PROGRAM,
        "image": image,
        "args": ["policies", "--talosconfig", TALOSCONFIG],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "talos", "mountPath": TALOSCONFIG.rpartition("/")[0], "readOnly": True}],
    }
    spec = {
        "serviceAccountName": PROGRAM,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "talos", "secret": {"secretName": PROGRAM}}],
    }
    labels = {"app.kubernetes.io/name": PROGRAM}
    return {
        **_make_head("apps/v1", "Deployment"),
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _make_head(version: str, kind: str) -> Manifest:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": PROGRAM, "namespace": NAMESPACE},
    }
