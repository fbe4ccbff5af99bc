"""Kernel modules of a config: nodes load none, but the kernel has most drivers that people name built in.

A test compares the symbols with the kernel's configuration.
"""

from collections.abc import Iterator, Mapping, Sequence

from talos.config.check.note import Note
from talos.config.documents.runtime.kernel_module import KernelModuleConfig
from talos.config.model import Config

BUILT_IN: Mapping[str, str] = {
    "8021q": "VLAN_8021Q",
    "bonding": "BONDING",
    "br_netfilter": "BRIDGE_NETFILTER",
    "bridge": "BRIDGE",
    "btrfs": "BTRFS_FS",
    "ceph": "CEPH_FS",
    "cifs": "CIFS",
    "configfs": "CONFIGFS_FS",
    "dm_cache": "DM_CACHE",
    "dm_crypt": "DM_CRYPT",
    "dm_mirror": "DM_MIRROR",
    "dm_multipath": "DM_MULTIPATH",
    "dm_raid": "DM_RAID",
    "dm_snapshot": "DM_SNAPSHOT",
    "dm_thin_pool": "DM_THIN_PROVISIONING",
    "dummy": "DUMMY",
    "fuse": "FUSE_FS",
    "geneve": "GENEVE",
    "ip6table_filter": "IP6_NF_FILTER",
    "ip6table_nat": "IP6_NF_NAT",
    "ip_set": "IP_SET",
    "ip_vs": "IP_VS",
    "ip_vs_rr": "IP_VS_RR",
    "ip_vs_sh": "IP_VS_SH",
    "ip_vs_wrr": "IP_VS_WRR",
    "ipmi_devintf": "IPMI_DEVICE_INTERFACE",
    "ipmi_si": "IPMI_SI",
    "iptable_filter": "IP_NF_FILTER",
    "iptable_nat": "IP_NF_NAT",
    "ipvlan": "IPVLAN",
    "iscsi_tcp": "ISCSI_TCP",
    "kvm": "KVM",
    "kvm_amd": "KVM_AMD",
    "kvm_intel": "KVM_INTEL",
    "loop": "BLK_DEV_LOOP",
    "macvlan": "MACVLAN",
    "nbd": "BLK_DEV_NBD",
    "nf_conntrack": "NF_CONNTRACK",
    "nfs": "NFS_FS",
    "nfsd": "NFSD",
    "nvme": "BLK_DEV_NVME",
    "nvme_core": "BLK_DEV_NVME",
    "nvme_fabrics": "NVME_TCP",
    "nvme_tcp": "NVME_TCP",
    "openvswitch": "OPENVSWITCH",
    "overlay": "OVERLAY_FS",
    "rbd": "BLK_DEV_RBD",
    "sch_fq": "NET_SCH_FQ",
    "sctp": "IP_SCTP",
    "tcp_bbr": "TCP_CONG_BBR",
    "tun": "TUN",
    "vfio": "VFIO",
    "vfio_iommu_type1": "VFIO",
    "vfio_pci": "VFIO_PCI",
    "vhost_net": "VHOST_NET",
    "vhost_vsock": "VHOST_VSOCK",
    "vxlan": "VXLAN",
    "wireguard": "WIREGUARD",
    "xfs": "XFS_FS",
    "xt_conntrack": "NETFILTER_XT_MATCH_CONNTRACK",
    "xt_socket": "NETFILTER_XT_MATCH_SOCKET",
    "xt_TPROXY": "NETFILTER_XT_TARGET_TPROXY",
    "zram": "ZRAM",
}
"""By module: the symbol of the kernel's configuration with which it is there."""
_OPTIONS: Mapping[str, str] = {
    "amdgpu": "DRM_AMDGPU",
    "bcache": "BCACHE",
    "i915": "DRM_I915",
    "nvme_rdma": "NVME_RDMA",
    "target_core_mod": "TARGET_CORE",
    "thunderbolt": "USB4",
    "thunderbolt_net": "USB4",
}
"""By module: a symbol for ``kernelOptions``, from the table in kernel/README.md."""
_OUT_OF_TREE = ("drbd", "nvidia", "zfs", "spl", "gasket", "apex", "hailo")
"""How modules begin that are no part of this kernel's source, or are not built from it."""


def find_modules(config: Config) -> Iterator[Note]:
    """Modules that the kernel has not, and parameters of those that it has."""
    main = config.machine.kernel if config.machine else None
    for index, module in enumerate((main and main.modules) or ()):
        at = Note.at(config.main, f"machine.kernel.modules[{index}]")
        yield from _check_module(module.name, module.parameters or (), at)
    for document in config.find_all(KernelModuleConfig):
        yield from _check_module(document.name, document.parameters or (), Note.at(document))


def _check_module(name: str, parameters: Sequence[str], at: Note) -> Iterator[Note]:
    # Either spelling names the same module.
    module = name.replace("-", "_")
    if module in BUILT_IN:
        if parameters:
            arguments = " ".join(f"{module}.{parameter}" for parameter in parameters)
            text = f'no effect: "{name}" is built into the kernel, which takes parameters at boot'
            yield at.find(text, hint=f"kernel arguments: {arguments}")
    elif module in _OPTIONS:
        hint = f"an image of lib.image {{ kernelOptions.{_OPTIONS[module]} = true; }} has it"
        yield at.find(f'no effect: "{name}" is not in this kernel', hint=hint)
    elif module.startswith(_OUT_OF_TREE):
        text = f'no effect: "{name}" is a driver from outside of this kernel, which loads no modules'
        yield at.find(text, hint="leave it out; what needs it does not run on this node")
    else:
        text = f'no effect: the kernel loads no modules; "{name}" is there only if it is built in'
        yield at.find(text, hint="leave it out; kernelOptions of lib.image builds others in")
