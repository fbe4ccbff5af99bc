"""The table of daemons: one row holds all that other parts need of one.

From it derive the supervisor's service (machined/services), what the zygote imports, sockets and who may
connect to them, which resources a daemon may touch (:mod:`talos.process.grants`), where routerd finds a
service of the API, and whose controllers belong to the node's graph. The image's ``passwd`` and ``group``
and ``layers.toml`` are held against it by a test.
"""

from dataclasses import dataclass, field

from talos.resource import ids, kinds
from talos.resource.controller.access import Input
from talos.system import kernel
from talos.system.cgroups import MIB, Limits
from talos.system.sandbox import INTERNET, NETLINK, NO_PATHS, PACKET, Paths

RUN = "/system/run"
IMAGE_CACHE = "/system/imagecache"
"""Below which the node's cache of images is mounted."""
MACHINED = "machined"
MACHINE_SOCKET = f"{RUN}/machined/machine.sock"
"""Where PID 1 serves its part of the API to routerd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSpec:
    """One daemon.

    ``uid`` is its gid, too. ``caller`` is the daemon that may connect to its socket; empty: it has none.
    ``port`` is open to the network. ``api`` are the services of the public API that it serves.
    It starts when the services in ``depends`` are up and the resources in ``waits_for`` exist. ``reads``
    is what its main function follows in the State; what its controllers read and write comes beside.
    ``paths`` are directories that it sees writable, all else is read-only, and those that it may read beside
    the image's and the kernel's.
    """

    name: str
    uid: int
    caller: str = "routerd"
    port: int = 0
    api: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    """Single methods that it serves of services that are PID 1's otherwise."""
    has_controllers: bool = False
    depends: tuple[str, ...] = ()
    waits_for: tuple[Input, ...] = ()
    reads: tuple[Input, ...] = ()
    control_plane_only: bool = False
    needs_devices: bool = False
    """It works on the devices of a machine: a container has those that its launcher gave it."""
    capabilities: tuple[int, ...] = ()
    paths: Paths = NO_PATHS
    families: tuple[int, ...] = ()
    """Address families of its sockets, beside those of unix sockets."""
    config_secrets: tuple[str, ...] = ()
    """Prefixes of ``module.Section.field``: what it sees of the config's secret and private values."""
    has_feed: bool = False
    """PID 1 serves it logs and events beside the State."""
    has_keys: bool = False
    """PID 1 serves it requests for keys of encrypted volumes beside the State."""
    on_demand: bool = False
    """A controller starts it when there is something to do, and stops it afterwards."""
    listens: bool = False
    """PID 1 hands it a socket on a port of the loopback interface, which stays open while it is replaced."""
    audited: bool = False
    """Its records of calls are a log of their own, ``audit``."""
    limits: Limits = field(default_factory=Limits)
    max_spec: int = 256 * 1024
    """Bytes of one resource that it writes, as a message."""
    large: tuple[str, ...] = ()
    """Types whose resources may have ``max_large`` bytes instead."""
    max_large: int = 24 * MIB
    """Manifests of 8 MiB of YAML, which is all that is fetched, are larger as messages."""
    max_bytes: int = 32 * MIB
    """Bytes of all resources that it has written, each with a kilobyte beside its contents."""
    silence: float = 60.0
    """Seconds without an answer after which it is taken for hung and replaced."""

    @property
    def max_message(self) -> int:
        """Bytes of the largest request that it sends to the State."""
        return (self.max_large if self.large else self.max_spec) + 1024

    @property
    def module(self) -> str:
        """The module whose ``main`` is the daemon."""
        return f"talos.{self.name}.main"

    @property
    def directory(self) -> str:
        """Where its socket is; only the group of its caller may enter."""
        return f"{RUN}/{self.name}"

    @property
    def socket(self) -> str:
        """The socket that its caller connects to."""
        return f"{self.directory}/{self.name}.sock"

    @property
    def state_directory(self) -> str:
        """Where it finds the State; only its own group may enter."""
        return f"{RUN}/state/{self.name}"

    @property
    def state_socket(self) -> str:
        """The socket on which PID 1 serves the State to this daemon and no other."""
        return f"{self.state_directory}/state.sock"


API_CERTIFICATE = Input(*ids.API_CERTIFICATE)
TRUSTD_CERTIFICATE = Input(*ids.TRUSTD_CERTIFICATE)

NETWORKD = DaemonSpec(
    name="networkd",
    uid=53,
    has_controllers=True,
    reads=(Input(*ids.DEVICES_STATUS),),
    capabilities=(kernel.CAP_NET_ADMIN, kernel.CAP_NET_BIND_SERVICE, kernel.CAP_NET_RAW),
    paths=Paths(writable=("/proc/sys/net",)),
    families=(*INTERNET, NETLINK, PACKET),
    config_secrets=("talos.config.documents.network.", "talos.config.documents.v1alpha1.device"),
    limits=Limits(minimum=16 * MIB, low=32 * MIB, maximum=128 * MIB, millicores=250),
)
ROUTERD = DaemonSpec(
    name="routerd",
    uid=52,
    caller="apid",
    reads=(Input(*ids.API_SERVICE_CONFIG),),
    limits=Limits(minimum=16 * MIB, low=32 * MIB, maximum=128 * MIB, millicores=500),
)
TIMED = DaemonSpec(
    name="timed",
    uid=54,
    api=("time.TimeService",),
    has_controllers=True,
    reads=(Input(*ids.TIME_SERVER_STATUS),),
    capabilities=(kernel.CAP_SYS_TIME,),
    families=INTERNET,
    limits=Limits(minimum=8 * MIB, low=16 * MIB, maximum=64 * MIB, millicores=100),
)
APID = DaemonSpec(
    name="apid",
    uid=50,
    caller="",
    port=50000,
    depends=("machined", "routerd"),
    waits_for=(API_CERTIFICATE,),
    reads=(
        API_CERTIFICATE,
        Input(*ids.API_SERVICE_CONFIG),
        Input(*ids.NODE_ADDRESS_CURRENT),
        Input(*ids.HOSTNAME_STATUS),
    ),
    audited=True,
    families=INTERNET,
    # 2,000 connections in their handshakes took 126 MiB once, and requests that arrive 18 more.
    limits=Limits(minimum=16 * MIB, low=32 * MIB, maximum=192 * MIB, millicores=500),
)
TRUSTD = DaemonSpec(
    name="trustd",
    uid=51,
    port=50001,
    depends=("machined",),
    waits_for=(TRUSTD_CERTIFICATE,),
    reads=(TRUSTD_CERTIFICATE, Input(*ids.OS_ROOT_SECRET), Input(*ids.MACHINE_CONFIG)),
    control_plane_only=True,
    audited=True,
    families=INTERNET,
    limits=Limits(minimum=8 * MIB, low=16 * MIB, maximum=128 * MIB, millicores=250),
)
UDEVD = DaemonSpec(
    name="udevd",
    uid=55,
    has_controllers=True,
    needs_devices=True,
    capabilities=(kernel.CAP_CHOWN, kernel.CAP_DAC_OVERRIDE, kernel.CAP_FOWNER, kernel.CAP_NET_ADMIN),
    paths=Paths(writable=("/dev", "/sys")),
    families=(*INTERNET, NETLINK),
    limits=Limits(minimum=8 * MIB, low=16 * MIB, millicores=250),
)

ETCD_METHODS = tuple(
    f"/machine.MachineService/Etcd{name}"
    for name in (
        "AlarmDisarm", "AlarmList", "Defragment", "DowngradeCancel", "DowngradeEnable", "DowngradeValidate",
        "ForfeitLeadership", "MemberList", "RemoveMemberByID", "Snapshot", "Status",
    )
)  # fmt: skip
"""What clusterd can do by itself; the rest changes etcd's data on the node, which PID 1 holds."""

CLUSTERD = DaemonSpec(
    name="clusterd",
    uid=56,
    methods=ETCD_METHODS,
    has_controllers=True,
    reads=(
        Input(*ids.ETCD_ROOT_SECRET),
        Input(*ids.ETCD_SECRET),
        Input(*ids.ETCD_SPEC),
        Input(*ids.MACHINE_CONFIG),
        Input(*ids.MACHINE_TYPE),
        Input(*ids.NODE_ADDRESS_CURRENT),
        Input(kinds.ENDPOINT),
        Input(kinds.MEMBER),
    ),
    families=INTERNET,
    config_secrets=(
        "talos.config.documents.cluster.",
        "talos.config.documents.v1alpha1.cluster.ClusterConfig.secret",
    ),
    limits=Limits(minimum=16 * MIB, low=32 * MIB, maximum=128 * MIB, millicores=250),
)

DNSD = DaemonSpec(
    name="dnsd",
    uid=57,
    api=("talos.probe.ProbeService",),
    has_controllers=True,
    waits_for=(Input(*ids.RESOLVER_STATUS),),
    capabilities=(kernel.CAP_NET_BIND_SERVICE,),
    families=INTERNET,
    limits=Limits(minimum=8 * MIB, low=16 * MIB, maximum=64 * MIB, millicores=250),
)

KUBED = DaemonSpec(
    name="kubed",
    uid=58,
    methods=("/machine.MachineService/Kubeconfig",),
    has_controllers=True,
    reads=(
        Input(*ids.ETCD_ROOT_SECRET),
        Input(*ids.ETCD_SECRET),
        Input(*ids.ETCD_SPEC),
        Input(*ids.KUBERNETES_ROOT_SECRET),
        Input(*ids.MACHINE_CONFIG),
        Input(*ids.MACHINE_TYPE),
    ),
    families=INTERNET,
    config_secrets=(
        "talos.config.documents.kubernetes.",
        "talos.config.documents.v1alpha1.cluster.ClusterConfig.extra_manifest",
        "talos.config.documents.v1alpha1.cluster.ClusterInlineManifest",
        "talos.config.documents.v1alpha1.control_plane.",
    ),
    listens=True,
    max_spec=MIB,
    large=(kinds.MANIFEST.type, kinds.EXTRA_MANIFESTS_CONFIG.type),
    max_bytes=96 * MIB,
    # With 6 MB of manifests in a config it had 194 MiB, a third of them shared with the zygote.
    limits=Limits(minimum=16 * MIB, low=32 * MIB, maximum=256 * MIB, millicores=250),
)

LOGD = DaemonSpec(
    name="logd",
    uid=59,
    has_controllers=True,
    has_feed=True,
    on_demand=True,
    families=INTERNET,
    limits=Limits(minimum=8 * MIB, low=16 * MIB, maximum=64 * MIB, millicores=250),
)
"""What the destinations of logs send back is from outside, and so is their TLS: neither is for PID 1."""

BGPD = DaemonSpec(
    name="bgpd",
    uid=63,
    has_controllers=True,
    on_demand=True,
    capabilities=(kernel.CAP_NET_BIND_SERVICE,),
    families=(*INTERNET, NETLINK),
    # Paths of sixteen peers with as many prefixes each as they may announce.
    limits=Limits(minimum=16 * MIB, low=32 * MIB, maximum=128 * MIB, millicores=250),
)
"""What neighbours send is from outside: it is neither for PID 1 nor for networkd."""

REGISTRYD = DaemonSpec(
    name="registryd",
    uid=62,
    on_demand=True,
    paths=Paths(readable=(IMAGE_CACHE,)),
    families=INTERNET,
    limits=Limits(minimum=8 * MIB, low=16 * MIB, maximum=64 * MIB, millicores=500),
)
"""It reads a file system that may be made by others, and replies to pods in the host's network, too."""

KMSD = DaemonSpec(
    name="kmsd",
    uid=61,
    has_keys=True,
    on_demand=True,
    families=INTERNET,
    limits=Limits(minimum=8 * MIB, low=16 * MIB, maximum=64 * MIB, millicores=100),
)
"""What key management services send back is from outside, and so is their TLS: neither is for PID 1."""

KUBELET_BUS = f"{KUBED.directory}/dbus/system_bus_socket"
"""Where kubed serves a bus to the kubelet, which sees nothing else of its folder."""
KUBELET_IMAGES = f"{RUN}/kubelet/images.sock"
"""Where PID 1 serves the kubelet what it pulls images by, while these are held to rules."""

DAEMONS = (NETWORKD, ROUTERD, TIMED, CLUSTERD, DNSD, KUBED, APID, TRUSTD, UDEVD, LOGD, BGPD, REGISTRYD, KMSD)
"""Every daemon beside PID 1, in the order in which a booting node starts them."""
EARLY = (UDEVD.name, NETWORKD.name, ROUTERD.name, APID.name)
"""Those that make a machine reachable, with or without a config."""
LATER = (TIMED.name,)
"""Started without a config, too, but after those above, which need the processors first."""
BY_NAME = {daemon.name: daemon for daemon in DAEMONS}
