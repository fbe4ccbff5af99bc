"""What each minor version of Kubernetes has no more: what uses it has to go before an upgrade.

A program that is given a flag, a feature gate or an admission plugin that it does not have ends at once;
objects of a removed kind can't be read any more. From Kubernetes' changelogs and from comparing the sources
of each version with those of the one before. Kinds that only lose a version, as most do, are not meant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

type Minor = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedFeatures:
    """What is gone in one version."""

    gates: tuple[str, ...] = ()
    """Feature gates, of all programs."""
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By program, without ``--``."""
    plugins: tuple[str, ...] = ()
    """Admission plugins."""
    resources: tuple[str, ...] = ()
    """Kinds of objects, as ``resource.version.group``."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


REMOVALS: Mapping[Minor, RemovedFeatures] = {
    (1, 32): RemovedFeatures(
        gates=_words("""
            CloudDualStackNodeIPs DRAControlPlaneController HPAContainerMetrics KMSv2 KMSv2KDF
            LegacyServiceAccountTokenCleanUp MinDomainsInPodTopologySpread
            NewVolumeManagerReconstruction NodeOutOfServiceVolumeDetach PodHostIPs ServerSideApply
            ServerSideFieldValidation StableLoadBalancerNodeSet ValidatingAdmissionPolicy
            ZeroLimitedNominalConcurrencyShares
        """),
        resources=("podschedulingcontexts.v1alpha3.resource.k8s.io",),
    ),
    (1, 33): RemovedFeatures(
        gates=_words("""
            AdmissionWebhookMatchConditions AggregatedDiscoveryEndpoint APIListChunking AppArmor
            AppArmorFields CPUManager DisableCloudProviders DisableKubeletCloudCredentialProviders
            EfficientWatchResumption JobPodFailurePolicy KubeProxyDrainingTerminatingNodes
            PDBUnhealthyPodEvictionPolicy PersistentVolumeLastPhaseTransitionTime RemainingItemCount
            VolumeCapacityPriority WatchBookmark
        """),
        flags={"kube-apiserver": ("cloud-config",)},
    ),
    (1, 34): RemovedFeatures(
        gates=_words("""
            DevicePluginCDIDevices ElasticIndexedJob LegacySidecarContainers PodDisruptionConditions
            StatefulSetStartOrdinal
        """),
        flags={"kubelet": ("cloud-config", "register-schedulable")},
    ),
    (1, 35): RemovedFeatures(
        gates=_words("""
            AllowServiceLBStatusOnNonLB ComponentSLIs CronJobsScheduledAnnotation LoadBalancerIPMode
            PodIndexLabel ProbeHostPodSecurityStandards SizeMemoryBackedVolumes
            StatefulSetAutoDeletePVC StrictCostEnforcementForVAP StrictCostEnforcementForWebhooks
            UserNamespacesPodSecurityStandards
        """),
        flags={"kubelet": ("pod-infra-container-image",)},
        resources=("storageversionmigrations.v1alpha1.storagemigration.k8s.io",),
    ),
    (1, 36): RemovedFeatures(
        gates=_words("""
            CSIMigrationPortworx HonorPVReclaimPolicy InPlacePodVerticalScalingAllocatedStatus
            InTreePluginPortworxUnregister MemoryManager ServiceTrafficDistribution
            StructuredAuthorizationConfiguration TopologyAwareHints
            WatchFromStorageWithoutResourceVersion
        """),
        resources=("workloads.v1alpha1.scheduling.k8s.io",),
    ),
    (1, 37): RemovedFeatures(
        gates=_words("""
            AnonymousAuthConfigurableEndpoints AnyVolumeDataSource APIServerTracing
            AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache
            ConsistentListFromCache GangScheduling JobBackoffLimitPerIndex JobPodReplacementPolicy
            JobSuccessPolicy LogarithmicScaleDown OrderedNamespaceDeletion PodLifecycleSleepAction
            PodLifecycleSleepActionAllowZero PreventStaticPodAPIReferences
            RelaxedDNSSearchValidation ResilientWatchCacheInitialization RetryGenerateName
            SchedulerQueueingHints SidecarContainers StreamingCollectionEncodingToJSON
            StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
            WorkloadAwarePreemption
        """),
        plugins=("JobValidation", "PodGroupWorkloadExists"),
        flags={
            "kubelet": _words("""
                application-metrics-count-limit boot-id-file container-hints containerd
                containerd-namespace enable-load-reader event-storage-age-limit
                event-storage-event-limit global-housekeeping-interval log-cadvisor-usage
                machine-id-file storage-driver-buffer-duration storage-driver-db storage-driver-host
                storage-driver-password storage-driver-secure storage-driver-table
                storage-driver-user
            """)
        },
        resources=("podgroups.v1alpha2.scheduling.k8s.io", "workloads.v1alpha2.scheduling.k8s.io"),
    ),
}
