"""The fields of the kubelet's configuration."""

VERSION = "1.37"
"""The minor version of Kubernetes that has these."""
KUBELET_FIELDS = frozenset({
    "apiVersion", "kind",
    "address", "allowedUnsafeSysctls", "authentication", "authorization", "cgroupDriver", "cgroupRoot",
    "cgroupsPerQOS", "clusterDNS", "clusterDomain", "configMapAndSecretChangeDetectionStrategy",
    "containerLogMaxFiles", "containerLogMaxSize", "containerLogMaxWorkers", "containerLogMonitorInterval",
    "containerRuntimeEndpoint", "contentType", "cpuCFSQuota", "cpuCFSQuotaPeriod", "cpuManagerPolicy",
    "cpuManagerPolicyOptions", "cpuManagerReconcilePeriod", "crashLoopBackOff", "defaultPodSysctls",
    "enableContentionProfiling", "enableControllerAttachDetach", "enableDebugFlagsHandler",
    "enableDebuggingHandlers", "enableProfilingHandler", "enableServer", "enableSystemLogHandler",
    "enableSystemLogQuery", "enforceNodeAllocatable", "eventBurst", "eventRecordQPS", "evictionHard",
    "evictionMaxPodGracePeriod", "evictionMinimumReclaim", "evictionPressureTransitionPeriod", "evictionSoft",
    "evictionSoftGracePeriod", "failCgroupV1", "failSwapOn", "featureGates", "fileCheckFrequency",
    "hairpinMode", "healthzBindAddress", "healthzPort", "httpCheckFrequency", "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent", "imageMaximumGCAge", "imageMinimumGCAge",
    "imagePullCredentialsVerificationPolicy", "imageServiceEndpoint", "iptablesDropBit",
    "iptablesMasqueradeBit", "kernelMemcgNotification", "kubeAPIBurst", "kubeAPIQPS", "kubeReserved",
    "kubeReservedCgroup", "kubeletCgroups", "localStorageCapacityIsolation", "logging",
    "makeIPTablesUtilChains", "maxOpenFiles", "maxParallelImagePulls", "maxPods", "memoryManagerPolicy",
    "memoryReservationPolicy", "memorySwap", "memoryThrottlingFactor", "mergeDefaultEvictionSettings",
    "nodeLeaseDurationSeconds", "nodeStatusMaxImages", "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency", "oomScoreAdj", "podCIDR", "podLogsDir", "podPidsLimit", "podsPerCore",
    "port", "preloadedImagesVerificationAllowlist", "protectKernelDefaults", "providerID", "qosReserved",
    "readOnlyPort", "registerNode", "registerWithTaints", "registryBurst", "registryPullQPS",
    "reservedMemory", "reservedSystemCPUs", "resolvConf", "rotateCertificates", "runOnce",
    "runtimeRequestTimeout", "seccompDefault", "serializeImagePulls", "serverTLSBootstrap",
    "showHiddenMetricsForVersion", "shutdownGracePeriod", "shutdownGracePeriodByPodPriority",
    "shutdownGracePeriodCriticalPods", "singleProcessOOMKill", "staticPodPath", "staticPodURL",
    "staticPodURLHeader", "streamingConnectionIdleTimeout", "syncFrequency", "systemCgroups",
    "systemReserved", "systemReservedCgroup", "tlsCertFile", "tlsCipherSuites", "tlsCurvePreferences",
    "tlsMinVersion", "tlsPrivateKeyFile", "topologyManagerPolicy", "topologyManagerPolicyOptions",
    "topologyManagerScope", "tracing", "userNamespaces", "volumePluginDir", "volumeStatsAggPeriod",
})  # fmt: skip
"""Of the first level, by k8s.io/kubelet, config/v1beta1/types.go."""
