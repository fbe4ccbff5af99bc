"""Checks of documents about the running system: files, variables, logs, devices, installation."""

import re
from collections.abc import Iterator

from talos.api.siderolink_endpoint import parse_siderolink
from talos.config.check.expressions import check_expression
from talos.config.check.forms import check_present
from talos.config.check.note import Check, Note
from talos.config.check.udev import check_udev_rules
from talos.config.documents.block.filesystem_scrub import FilesystemScrubConfig
from talos.config.documents.block.filesystem_trim import FilesystemTrimConfig
from talos.config.documents.cluster.discovery_identity import DiscoveryIdentityConfig
from talos.config.documents.cluster.discovery_service import DiscoveryServiceConfig
from talos.config.documents.runtime.environment import EnvironmentConfig
from talos.config.documents.runtime.etc_file import EtcFileConfig
from talos.config.documents.runtime.event_sink import EventSinkConfig
from talos.config.documents.runtime.kmsg_log import KmsgLogConfig
from talos.config.documents.runtime.oom import OOMConfig
from talos.config.documents.runtime.sysctl import SysctlConfig
from talos.config.documents.runtime.sysfs import SysfsConfig
from talos.config.documents.runtime.udev_rules import UdevRulesConfig
from talos.config.documents.runtime.unattended_install import UnattendedInstallConfig
from talos.config.documents.runtime.watchdog_timer import WatchdogTimerConfig
from talos.config.documents.siderolink.sidero_link import SideroLinkConfig
from talos.config.values import Duration

_VARIABLE = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_MIN_INTERVAL = 10  # seconds of a watchdog or between two scrubs
_SYSTEM_FILES = frozenset({
    "resolv.conf", "hosts", "machine-id", "extensions.yaml", "localtime", "os-release", "xattr.conf",
    "iscsi/initiatorname.iscsi", "nvme/hostid", "nvme/hostnqn",
})  # fmt: skip
_SYSTEM_FOLDERS = (
    "cni", "containerd", "kubernetes", "cri", "apparmor", "apparmor.d", "ca-certificates", "lvm", "pki",
    "selinux", "ssl",
)  # fmt: skip


def _etc_file(document: EtcFileConfig) -> Iterator[Note]:
    at, name = Note.at(document, "name"), document.name
    parts = name.split("/")
    if name.startswith((".", "/")) or ".." in parts:
        yield at.find(f'"{name}" is no path below /etc', hint="relative, not beginning with a dot")
    elif name in _SYSTEM_FILES or parts[0] in _SYSTEM_FOLDERS:
        yield at.find(f'"{name}" is the system\'s own', hint="choose another name")


def _environment(document: EnvironmentConfig) -> Iterator[Note]:
    for name in document.variables or {}:
        if not _VARIABLE.fullmatch(name):
            place = Note.at(document, f"variables[{name}]")
            yield place.find(f'"{name}" is no name of a variable', hint="letters, digits and _")


def _event_sink(document: EventSinkConfig) -> Iterator[Note]:
    host, colon, _ = (document.endpoint or "").removeprefix("tls://").rpartition(":")
    if not colon or (":" in host and not (host.startswith("[") and host.endswith("]"))):
        yield Note.at(document, "endpoint").find("has no port", hint="such as 10.0.0.1:4000")


def _kmsg_log(document: KmsgLogConfig) -> Iterator[Note]:
    at, url = Note.at(document, "url"), document.url
    if not url:
        yield at.find("is missing", hint="such as udp://10.0.0.1:514")
        return
    if url.path not in {"", "/"}:
        yield at.find("has a path", hint="leave it out")
    if not url.port:
        yield at.find("has no port", hint="such as udp://10.0.0.1:514")


def _sidero_link(document: SideroLinkConfig) -> Iterator[Note]:
    at, url = Note.at(document, "apiUrl"), document.api_url
    yield from check_present(url, at)
    if not url:
        return
    if url.path not in {"", "/"}:
        yield at.find("has a path", hint="leave it out")
        return
    try:
        parse_siderolink(url)
    except ValueError as error:
        yield at.find(str(error), hint="such as https://siderolink.example.org?jointoken=…")


def _params(document: SysctlConfig | SysfsConfig) -> Iterator[Note]:
    if "" in (document.params or {}):
        yield Note.at(document, "params[]").find("has an empty key")


def _oom(document: OOMConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_expression(document.trigger_expression, "OOM_TRIGGER", at.below("triggerExpression"))
    place = at.below("cgroupRankingExpression")
    yield from check_expression(document.cgroup_ranking_expression, "OOM_RANKING", place)


def _watchdog(document: WatchdogTimerConfig) -> Iterator[Note]:
    at = Note.at(document)
    yield from check_present(document.device, at.below("device"), hint="such as /dev/watchdog0")
    yield from _at_least(document.timeout, at.below("timeout"))


def _scrub(document: FilesystemScrubConfig) -> Iterator[Note]:
    yield from _at_least(document.interval, Note.at(document, "interval"))


def _trim(document: FilesystemTrimConfig) -> Iterator[Note]:
    if document.interval and document.interval.seconds <= 0:
        yield Note.at(document, "interval").find(f'"{document.interval}" is not positive')


def _at_least(span: Duration | None, at: Note) -> Iterator[Note]:
    if span and span.seconds < _MIN_INTERVAL:
        yield at.find(f'"{span}" is too short', hint=f"at least {_MIN_INTERVAL}s")


def _udev(document: UdevRulesConfig) -> Iterator[Note]:
    yield from check_udev_rules(document.rules, Note.at(document, "rules"))


def _unattended_install(document: UnattendedInstallConfig) -> Iterator[Note]:
    selector = document.provisioning.disk_selector if document.provisioning else None
    at = Note.at(document, "provisioning.diskSelector.match")
    yield from check_expression(selector and selector.match, "DISK", at, required=True)


def _discovery_identity(document: DiscoveryIdentityConfig) -> Iterator[Note]:
    yield from check_present(document.cluster_id, Note.at(document, "clusterID"))
    yield from check_present(document.cluster_secret, Note.at(document, "clusterSecret"))


def _discovery_service(document: DiscoveryServiceConfig) -> Iterator[Note]:
    yield from check_present(document.endpoint, Note.at(document, "endpoint"))


CHECKS: dict[str, Check] = {
    "DiscoveryIdentityConfig": _discovery_identity,
    "DiscoveryServiceConfig": _discovery_service,
    "EnvironmentConfig": _environment,
    "EtcFileConfig": _etc_file,
    "EventSinkConfig": _event_sink,
    "FilesystemScrubConfig": _scrub,
    "FilesystemTrimConfig": _trim,
    "KmsgLogConfig": _kmsg_log,
    "OOMConfig": _oom,
    "SideroLinkConfig": _sidero_link,
    "SysctlConfig": _params,
    "SysfsConfig": _params,
    "UdevRulesConfig": _udev,
    "UnattendedInstallConfig": _unattended_install,
    "WatchdogTimerConfig": _watchdog,
}
