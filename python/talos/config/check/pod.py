"""Checks of static pods: of one that it can't use, only the kubelet's log shows why.

The types are those of https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/. What is
not in the table is let pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from talos.config.check.forms import is_domain
from talos.config.check.note import Note
from talos.config.static_pods import NAMESPACE, UIDS

type Form = str | list["Form"] | Mapping[str, "Form"]
"""The name of a scalar's type, a list with the form of its items, or a mapping by its keys, ``*`` for any."""

TEXT, WHOLE, TRUTH, AMOUNT, PORT = "a text", "a whole number", "true or false", "a quantity", "a port"
_TYPES: Mapping[str, tuple[type, ...]] = {
    TEXT: (str,),
    WHOLE: (int,),
    TRUTH: (bool,),
    AMOUNT: (str, int, float),
    PORT: (str, int),
}


def _all(form: str, *names: str) -> dict[str, Form]:
    return dict.fromkeys(names, form)


_TEXTS: Form = [TEXT]
_MAP: Form = {"*": TEXT}
_AMOUNTS: Form = {"*": AMOUNT}
_PROFILE: Form = _all(TEXT, "type", "localhostProfile")
_REFERENCE: Form = {**_all(TEXT, "name", "key"), "optional": TRUTH}
_ITEMS: Form = [{**_all(TEXT, "key", "path"), "mode": WHOLE}]
_ACTION: dict[str, Form] = {
    "exec": {"command": _TEXTS},
    "httpGet": {
        **_all(TEXT, "path", "host", "scheme"),
        "port": PORT,
        "httpHeaders": [_all(TEXT, "name", "value")],
    },
    "tcpSocket": {"host": TEXT, "port": PORT},
    "sleep": {"seconds": WHOLE},
}
_PROBE: Form = {
    **_ACTION,
    "grpc": {"service": TEXT, "port": WHOLE},
    **_all(WHOLE, "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold"),
    **_all(WHOLE, "failureThreshold", "terminationGracePeriodSeconds"),
}
_SECURITY: dict[str, Form] = {
    **_all(WHOLE, "runAsUser", "runAsGroup", "fsGroup"),
    **_all(TRUTH, "runAsNonRoot", "privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem"),
    **_all(TEXT, "procMount", "fsGroupChangePolicy", "supplementalGroupsPolicy"),
    "capabilities": {"add": _TEXTS, "drop": _TEXTS},
    "seccompProfile": _PROFILE,
    "appArmorProfile": _PROFILE,
    "seLinuxOptions": _MAP,
    "supplementalGroups": [WHOLE],
    "sysctls": [_all(TEXT, "name", "value")],
}
_SOURCE: Form = {
    "fieldRef": _all(TEXT, "apiVersion", "fieldPath"),
    "resourceFieldRef": {**_all(TEXT, "containerName", "resource"), "divisor": AMOUNT},
    "configMapKeyRef": _REFERENCE,
    "secretKeyRef": _REFERENCE,
}
_MOUNT: Form = {
    **_all(TEXT, "name", "mountPath", "subPath", "subPathExpr", "mountPropagation", "recursiveReadOnly"),
    "readOnly": TRUTH,
}
_CONTAINER: Form = {
    **_all(TEXT, "name", "image", "imagePullPolicy", "workingDir", "restartPolicy"),
    **_all(TEXT, "terminationMessagePath", "terminationMessagePolicy"),
    **_all(TRUTH, "stdin", "stdinOnce", "tty"),
    "command": _TEXTS,
    "args": _TEXTS,
    "env": [{**_all(TEXT, "name", "value"), "valueFrom": _SOURCE}],
    "envFrom": [{"prefix": TEXT, "configMapRef": _REFERENCE, "secretRef": _REFERENCE}],
    "ports": [{**_all(TEXT, "name", "hostIP", "protocol"), **_all(WHOLE, "containerPort", "hostPort")}],
    "volumeMounts": [_MOUNT],
    "volumeDevices": [_all(TEXT, "name", "devicePath")],
    "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "lifecycle": {"postStart": _ACTION, "preStop": _ACTION, "stopSignal": TEXT},
    "securityContext": _SECURITY,
}
_VOLUME: Form = {
    "name": TEXT,
    "hostPath": _all(TEXT, "path", "type"),
    "emptyDir": {"medium": TEXT, "sizeLimit": AMOUNT},
    "configMap": {"name": TEXT, "defaultMode": WHOLE, "optional": TRUTH, "items": _ITEMS},
    "secret": {"secretName": TEXT, "defaultMode": WHOLE, "optional": TRUTH, "items": _ITEMS},
}
_SPEC: Form = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [_VOLUME],
    **_all(TEXT, "restartPolicy", "dnsPolicy", "nodeName", "hostname", "subdomain", "schedulerName"),
    **_all(TEXT, "priorityClassName", "preemptionPolicy", "runtimeClassName", "serviceAccountName"),
    **_all(WHOLE, "terminationGracePeriodSeconds", "activeDeadlineSeconds", "priority"),
    **_all(TRUTH, "hostNetwork", "hostPID", "hostIPC", "hostUsers", "shareProcessNamespace"),
    **_all(TRUTH, "automountServiceAccountToken", "enableServiceLinks", "setHostnameAsFQDN"),
    "nodeSelector": _MAP,
    "overhead": _AMOUNTS,
    "tolerations": [{**_all(TEXT, "key", "operator", "value", "effect"), "tolerationSeconds": WHOLE}],
    "hostAliases": [{"ip": TEXT, "hostnames": _TEXTS}],
    "imagePullSecrets": [{"name": TEXT}],
    "dnsConfig": {"nameservers": _TEXTS, "searches": _TEXTS, "options": [_all(TEXT, "name", "value")]},
    "securityContext": _SECURITY,
}
POD: Form = {
    "metadata": {**_all(TEXT, "name", "namespace"), "labels": _MAP, "annotations": _MAP},
    "spec": _SPEC,
}


def check_pod(pod: Mapping[str, Any] | None, at: Note) -> Iterator[Note]:
    """A static pod."""
    found = pod or {}
    for key, wanted in (("apiVersion", "v1"), ("kind", "Pod")):
        if found.get(key) != wanted:
            yield at.below(key).find(f"is not {wanted}")
    wrong = list(_check_form(found, POD, at))
    yield from wrong
    if wrong:
        return
    metadata, spec = (cast("Mapping[str, Any]", found.get(key) or {}) for key in ("metadata", "spec"))
    name: object = metadata.get("name")
    if not isinstance(name, str) or not is_domain(name):
        hint = "lower-case letters, digits, - and ."
        yield at.below("metadata.name").find("is no name of an object", hint=hint)
    elif is_control_plane(metadata.get("namespace"), name):
        yield at.below("metadata.name").find("is that of a control plane's pod", hint="name it otherwise")
    containers = cast("Sequence[Mapping[str, Any] | None]", spec.get("containers") or ())
    if not containers:
        yield at.below("spec.containers").find("is empty")
    for index, container in enumerate(containers):
        for key in ("name", "image"):
            if not (container or {}).get(key):
                yield at.below(f"spec.containers[{index}].{key}").find("is missing")


def is_control_plane(namespace: object, name: str) -> bool:
    """Whether a static pod would be one of the control plane's, by its name or by its resource's id."""
    return (namespace == NAMESPACE and name in UIDS) or f"{namespace}-{name}" in UIDS


def _check_form(value: Any, form: Form, at: Note) -> Iterator[Note]:
    """What is of another type; null is always the default."""
    if value is None:
        return
    if isinstance(form, str):
        if not isinstance(value, _TYPES[form]) or (isinstance(value, bool) and form != TRUTH):
            yield at.find(f"expected {form}", hint='write it as "…"' if form == TEXT else "")
    elif isinstance(form, list):
        if not isinstance(value, list):
            yield at.find("expected a list")
            return
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _check_form(item, form[0], at.below(f"[{index}]"))
    elif not isinstance(value, Mapping):
        yield at.find("expected a mapping")
    else:
        for key, item in cast("Mapping[str, Any]", value).items():
            if (inner := form.get(key) or form.get("*")) is not None:
                yield from _check_form(item, inner, at.below(key))
