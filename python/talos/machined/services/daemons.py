"""The daemons as services, each derived from its row in :mod:`talos.process.daemons`."""

from talos.machined.services.conditions import ResourceReady
from talos.machined.services.health import HealthCheck, MethodProbe, TlsProbe
from talos.machined.services.spec import Directory, Fork, ServiceContext, ServiceSpec, never_skip
from talos.process.callers import find_directories
from talos.process.daemons import BY_NAME, DaemonSpec
from talos.resource.controller.access import Input
from talos.system.sandbox import Paths

OOM_SCORE = -998
START_TIMEOUT = 300.0
"""Seconds in which a daemon has to answer for the first time, even on an emulated machine under load."""


def make_daemon_service(daemon: DaemonSpec) -> ServiceSpec:
    """The supervisor's row for a daemon."""
    return ServiceSpec(
        id=daemon.name,
        start=Fork(
            module=daemon.module,
            uid=daemon.uid,
            gid=daemon.uid,
            capabilities=daemon.capabilities,
            paths=Paths(writable=(daemon.directory,) if daemon.caller else ()) | daemon.paths,
            sockets=find_directories(daemon),
            families=daemon.families,
            listens=daemon.listens,
        ),
        depends=daemon.depends,
        conditions=tuple(make_condition(item) for item in daemon.waits_for),
        health=make_health_check(daemon),
        skip=_skip_on_container if daemon.needs_devices else never_skip,
        control_plane_only=daemon.control_plane_only,
        directories=make_directories(daemon),
        audited=daemon.audited,
        on_demand=daemon.on_demand,
        group=f"system/{daemon.name}",
        limits=daemon.limits,
        oom_score_adj=OOM_SCORE,
    )


def make_condition(item: Input) -> ResourceReady:
    """A condition that holds once the resource of a row exists; messages show it as ``Type/id``."""
    assert item.id is not None, item.kind.type
    return ResourceReady(text=f"{item.kind.type.partition('.')[0]}/{item.id}", kind=item.kind, id=item.id)


def make_health_check(daemon: DaemonSpec) -> HealthCheck:
    """Probe its port or its socket."""
    probe = TlsProbe(daemon.port) if daemon.port else MethodProbe(daemon.socket)
    return HealthCheck(probe=probe, silence=daemon.silence, start_timeout=START_TIMEOUT)


def make_directories(daemon: DaemonSpec) -> tuple[Directory, ...]:
    """The directory of its socket. It is setgid, so that the socket belongs to the caller's group."""
    if not daemon.caller:
        return ()
    caller = BY_NAME[daemon.caller].uid
    return (Directory(path=daemon.directory, uid=daemon.uid, gid=caller, mode=0o2750),)


def make_state_directory(daemon: DaemonSpec) -> Directory:
    """The directory of the socket on which PID 1 serves the State to one daemon."""
    return Directory(path=daemon.state_directory, gid=daemon.uid, mode=0o2750)


def _skip_on_container(service: ServiceContext) -> str:
    if not service.platform.has_kernel:
        return "a container gets its devices from its launcher and may not load modules"
    return ""
