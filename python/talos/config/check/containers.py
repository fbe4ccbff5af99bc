"""Checks of ContainerConfig and of documents about images and registries."""

import re
import warnings
from collections.abc import Iterator
from typing import Any, cast

from talos.config.check.forms import check_name, check_pem, check_present
from talos.config.check.note import Check, Note
from talos.config.check.trusted_root import check_trusted_root
from talos.config.documents.container.container import (
    ContainerCapabilities,
    ContainerConfig,
    ContainerMount,
    ContainerResourceLimits,
)
from talos.config.documents.cri.base_runtime_spec import CRIBaseRuntimeSpecConfig
from talos.config.documents.cri.customization import CRICustomizationConfig
from talos.config.documents.cri.registry_auth import RegistryAuthConfig
from talos.config.documents.cri.registry_mirror import RegistryMirrorConfig
from talos.config.documents.cri.registry_tls import RegistryTLSConfig
from talos.config.documents.extensions.extension_service import ExtensionServiceConfig
from talos.config.documents.security.image_verification import (
    ImageKeylessVerifier,
    ImageVerificationConfig,
    ImageVerificationRule,
)
from talos.config.values import ByteSize, Unstructured
from talos.pki.keys import parse_public_key
from talos.system.errors import UserError

_NAME = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_IMAGE = re.compile(
    r"(?:[a-zA-Z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*+(?::[\w][\w.-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,128})?",
    re.ASCII,
)
_MAX_IMAGE = 512
"""Characters."""
_MILLICORES = re.compile(r"[0-9]{1,12}m", re.ASCII)
_PROFILES = ("restricted", "privileged")
_NETWORKS = ("none", "host")
_OPTIONS = ("ro", "rw", "noexec", "nosuid", "nodev", "noatime", "rbind", "rshared")
_CUSTOMIZATION = re.compile(r"[^/]+(?:/[^/]+)?")


def _container(document: ContainerConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_name(document, _NAME, "lower-case letters, digits and hyphens")
    yield from check_present(document.image, at.below("image"))
    if document.image and (len(document.image) > _MAX_IMAGE or not _IMAGE.fullmatch(document.image)):
        yield at.below("image").find(f'"{document.image}" is no image')
    for key, number in (
        ("uid", document.run_as.uid if document.run_as else None),
        ("gid", document.run_as.gid if document.run_as else None),
    ):
        if number is not None and number < 0:
            yield at.below(f"runAs.{key}").find(f"{number} is negative")
    yield from check_environment(document.environment, at.below("environment"))
    yield from _check_mounts(document, at.below("mounts"))
    yield from _check_security(document, at)
    yield from _check_dependencies(document, at.below("dependsOn"))


def _check_security(document: ContainerConfig, at: Note) -> Iterator[Note]:
    security = document.security
    if security and security.profile and security.profile not in _PROFILES:
        hint = " or ".join(_PROFILES)
        yield at.below("security.profile").find(f'"{security.profile}" is not allowed', hint=hint)
    if security and security.capabilities:
        yield from _check_capabilities(security.capabilities, at.below("security.capabilities"))
    mode = document.network.mode if document.network else None
    if mode and mode not in _NETWORKS:
        yield at.below("network.mode").find(f'"{mode}" is not allowed', hint=" or ".join(_NETWORKS))
    if document.resources and document.resources.limits:
        yield from _check_limits(document.resources.limits, at.below("resources.limits"))


def _check_dependencies(document: ContainerConfig, at: Note) -> Iterator[Note]:
    needed = document.depends_on
    if needed is None:
        return
    for index, path in enumerate(needed.paths or ()):
        if not path.startswith("/"):
            yield at.below(f"paths[{index}]").find(f'"{path}" is no absolute path', hint="begins with /")
    if document.name in (needed.containers or ()):
        yield at.below("containers").find("waits for itself")


def check_environment(variables: tuple[str, ...] | None, at: Note) -> Iterator[Note]:
    """Variables as NAME=value."""
    for index, text in enumerate(variables or ()):
        name, equals, _ = text.partition("=")
        if not name or not equals:
            yield at.below(f"[{index}]").find(f'"{text}" is no variable', hint="NAME=value")


def _check_mounts(document: ContainerConfig, at: Note) -> Iterator[Note]:
    destinations: set[str] = set()
    for index, mount in enumerate(document.mounts or ()):
        place = at.below(f"[{index}]")
        kinds = [kind for kind in (mount.user_volume, mount.tmpfs, mount.host_path) if kind is not None]
        if len(kinds) != 1:
            yield place.find("needs one of userVolume, tmpfs, hostPath")
            continue
        yield from _check_mount(mount, place)
        destination = kinds[0].destination or ""
        if destination and destination in destinations:
            yield place.find(f'something is mounted at "{destination}" already')
        destinations.add(destination)


def _check_mount(mount: ContainerMount, at: Note) -> Iterator[Note]:
    kind = mount.user_volume or mount.tmpfs or mount.host_path
    assert kind is not None
    key = "userVolume" if mount.user_volume else "tmpfs" if mount.tmpfs else "hostPath"
    place = at.below(key)
    yield from _check_path(kind.destination, place.below("destination"))
    if mount.user_volume:
        yield from check_present(mount.user_volume.name, place.below("name"))
    if mount.host_path:
        yield from _check_path(mount.host_path.source, place.below("source"))
    if mount.tmpfs and mount.tmpfs.size:
        yield from _check_size(mount.tmpfs.size, place.below("size"))
    options = kind.options or ()
    for index, option in enumerate(options):
        if option not in _OPTIONS:
            hint = f"one of: {', '.join(_OPTIONS)}"
            yield place.below(f"options[{index}]").find(f'"{option}" is not allowed', hint=hint)
    if "ro" in options and "rw" in options:
        yield place.below("options").find("ro and rw exclude each other")


def _check_path(path: str | None, at: Note) -> Iterator[Note]:
    if not path:
        yield at.find("is missing")
    elif not path.startswith("/"):
        yield at.find(f'"{path}" is no absolute path', hint="begins with /")


def _check_size(text: str, at: Note) -> Iterator[Note]:
    try:
        ByteSize.parse(text)
    except ValueError as error:
        yield at.find(f'"{text}" is no size', hint=str(error))


def _check_capabilities(capabilities: ContainerCapabilities, at: Note) -> Iterator[Note]:
    for key, names in (("add", capabilities.add), ("drop", capabilities.drop)):
        for index, name in enumerate(names or ()):
            if name.upper().startswith("CAP_"):
                yield at.below(f"{key}[{index}]").find(f'"{name}" has a prefix', hint="leave out CAP_")
    if "ALL" in map(str.upper, capabilities.add or ()):
        yield at.below("add").find("ALL can't be added", hint="use profile: privileged")
    dropped = frozenset(map(str.upper, capabilities.drop or ()))
    for name in capabilities.add or ():
        if name.upper() in dropped:
            yield at.find(f'"{name}" is added and dropped')


def _check_limits(limits: ContainerResourceLimits, at: Note) -> Iterator[Note]:
    cpu = limits.cpu
    if cpu and not _MILLICORES.fullmatch(cpu):
        yield at.below("cpu").find(f'"{cpu}" is not in millicores', hint="such as 1500m")
    elif cpu and not int(cpu[:-1]):
        yield at.below("cpu").find(f'"{cpu}" is nothing')
    if limits.memory:
        yield from _check_size(limits.memory, at.below("memory"))


def _base_runtime_spec(document: CRIBaseRuntimeSpecConfig) -> Iterator[Note]:
    yield from check_runtime_spec(
        cast("dict[str, Any]", document.overrides or {}), Note.at(document, "overrides")
    )


def check_runtime_spec(overrides: Unstructured | None, at: Note) -> Iterator[Note]:
    """Types of what is most often overridden in an OCI runtime spec."""
    overrides = overrides or {}
    for key in ("process", "root", "linux", "hooks", "annotations"):
        if not isinstance(overrides.get(key, {}), dict | None):
            yield at.below(key).find("expected a mapping")
    process = overrides.get("process")
    limits: Any = cast("dict[str, Any]", process).get("rlimits") if isinstance(process, dict) else None
    place = at.below("process.rlimits")
    if not isinstance(limits, list | None):
        yield place.find("expected a list")
        return
    for index, limit in enumerate(cast("list[Any]", limits or [])):
        if not isinstance(limit, dict):
            yield place.below(f"[{index}]").find("expected a mapping")
            continue
        fields = cast("dict[str, Any]", limit)
        if not isinstance(fields.get("type"), str | None):
            yield place.below(f"[{index}].type").find("expected a text")
        for key in ("hard", "soft"):
            number = fields.get(key, 0)
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                yield place.below(f"[{index}].{key}").find("expected a number")


def _customization(document: CRICustomizationConfig) -> Iterator[Note]:
    yield from check_name(document, _CUSTOMIZATION, "one slash at most")
    if document.name == "customization":
        yield Note.at(document, "name").find("is taken by the main document's machine.files")


def _registry_auth(document: RegistryAuthConfig) -> Iterator[Note]:
    if document.identity_token and (document.username or document.password):
        yield Note.at(document, "identityToken").find("stands beside username and password")


def _registry_mirror(document: RegistryMirrorConfig) -> Iterator[Note]:
    for index, endpoint in enumerate(document.endpoints or ()):
        yield from check_present(endpoint.url, Note.at(document, f"endpoints[{index}].url"))


def _registry_tls(document: RegistryTLSConfig) -> Iterator[Note]:
    at = Note.at(document)
    if document.ca:
        yield from check_pem(document.ca, at.below("ca"))
    identity = document.client_identity
    if identity is not None:
        place = at.below("clientIdentity")
        for key, pem in (("cert", identity.cert), ("key", identity.key)):
            below = place.below(key)
            yield from check_pem(pem, below) if pem else (below.find("is missing"),)


def _extension_service(document: ExtensionServiceConfig) -> Iterator[Note]:
    at = Note.at(document)
    for index, file in enumerate(document.config_files or ()):
        yield from check_present(file.content, at.below(f"configFiles[{index}].content"))
        yield from check_present(file.mount_path, at.below(f"configFiles[{index}].mountPath"))
    yield from check_environment(document.environment, at.below("environment"))


def _image_verification(document: ImageVerificationConfig) -> Iterator[Note]:
    for index, rule in enumerate(document.rules or ()):
        yield from _check_rule(rule, Note.at(document, f"rules[{index}]"))


def _check_rule(rule: ImageVerificationRule, at: Note) -> Iterator[Note]:
    yield from check_present(rule.image, at.below("image"))
    verified = rule.keyless is not None or rule.public_key is not None
    if (rule.skip or rule.deny) and verified:
        yield at.find("verifies and skips or denies", hint="keep one")
    elif not rule.skip and not rule.deny and not verified:
        yield at.find("has nothing to verify with", hint="keyless, publicKey, skip or deny")
    if rule.keyless is not None:
        yield from _check_keyless(rule.keyless, at.below("keyless"))
    if rule.public_key is not None:
        yield from _check_public_key(rule.public_key.certificate, at.below("publicKey.certificate"))


def _check_keyless(keyless: ImageKeylessVerifier, at: Note) -> Iterator[Note]:
    yield from check_present(keyless.issuer, at.below("issuer"))
    if not keyless.subject and not keyless.subject_regex:
        yield at.find("needs subject or subjectRegex")
    try:
        with warnings.catch_warnings():
            # A warning is about what means something else in Go, whose patterns these are: [[:alpha:]].
            warnings.simplefilter("error")
            re.compile(keyless.subject_regex or "", re.ASCII)
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        text = f'"{keyless.subject_regex}" is no pattern that nodes have: {error}'
        yield at.below("subjectRegex").find(text, hint="use what Go and Python have in common")


def _check_public_key(pem: str | None, at: Note) -> Iterator[Note]:
    yield from check_present(pem, at)
    if pem:
        try:
            parse_public_key(pem.encode())
        except UserError as error:
            yield at.find(error.message, hint="what `cosign public-key --key KEY` prints")


CHECKS: dict[str, Check] = {
    "CRIBaseRuntimeSpecConfig": _base_runtime_spec,
    "CRICustomizationConfig": _customization,
    "ContainerConfig": _container,
    "ExtensionServiceConfig": _extension_service,
    "ImageVerificationConfig": _image_verification,
    "RegistryAuthConfig": _registry_auth,
    "RegistryMirrorConfig": _registry_mirror,
    "RegistryTLSConfig": _registry_tls,
    "SigstoreTrustedRootConfig": check_trusted_root,
}
